//! The log of a daemon: a file that never grows beyond its budget.
//!
//! Owns where lines go. When the file has half of the budget, it takes the place of the one before. What is in the lines is said where
//! things happen, with `tracing`: metadata only.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fs2::FileExt;

/// A log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    len: u64,
    /// Half of the budget.
    most: u64,
}

/// Returns where the lines are that were written before.
pub fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".1");
    PathBuf::from(name)
}

impl LogFile {
    /// Opens a log file that takes, with the one before, no more than a number of bytes. Only this user can read it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn open(path: &Path, budget: u64) -> io::Result<LogFile> {
        let file = open(path)?;
        let len = file.metadata()?.len();
        let mut log = LogFile {
            path: path.to_path_buf(),
            file,
            len,
            most: budget / 2,
        };
        // The budget may have been larger.
        let older = before(path);
        if std::fs::metadata(&older).is_ok_and(|meta| meta.len() > log.most) {
            std::fs::remove_file(&older)?;
        }
        if log.len > log.most {
            log.turn()?;
            match std::fs::remove_file(older) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(log)
    }

    fn turn(&mut self) -> io::Result<()> {
        match std::fs::rename(&self.path, before(&self.path)) {
            // Somebody has moved or removed it: there is a new one from now on.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.file = open(&self.path)?;
        self.len = 0;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let file = options.open(path)?;
    // Two that count what they write would together write more than the budget.
    match file.try_lock_exclusive() {
        Err(error) if error.kind() == fs2::lock_contended_error().kind() => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another daemon logs to this file; name another one",
        )),
        // Where files can't be locked, that can't be told.
        _ => Ok(file),
    }
}

impl Write for LogFile {
    /// Writes a line. One that is longer than the file may be is left out.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let bytes = line.len() as u64;
        if bytes > self.most {
            return Ok(line.len());
        }
        if self.len + bytes > self.most {
            self.turn()?;
        }
        self.file.write_all(line)?;
        self.len += bytes;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn ggrep_a_log_stays_within_its_budget_and_keeps_the_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let size = || {
            let len = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
            len(path.clone()) + len(before(&path))
        };
        let mut log = LogFile::open(&path, 1_000).unwrap();
        for n in 0..500 {
            log.write_all(format!("line {n:03} {}\n", "x".repeat(40)).as_bytes())
                .unwrap();
            assert!(size() <= 1_000, "{}", size());
        }
        log.write_all(&vec![b'y'; 5_000]).unwrap();
        assert!(size() <= 1_000 && size() > 400);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().last().unwrap().starts_with("line 499"));
        drop(log);
        // It goes on where it was, and a smaller budget holds from the start.
        let mut log = LogFile::open(&path, 1_000).unwrap();
        log.write_all(b"more\n").unwrap();
        let kept = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let all = kept(before(&path)) + &kept(path.clone());
        assert!(all.contains("line 499") && all.ends_with("more\n"), "{all}");
        assert!(size() <= 1_000, "{}", size());
        drop(log);
        let mut log = LogFile::open(&path, 100).unwrap();
        assert!(size() <= 100);
        // Where somebody takes it away, it goes on in a new one.
        std::fs::remove_file(&path).unwrap();
        for n in 0..9 {
            log.write_all(format!("again {n} xxxxxxxxxx\n").as_bytes())
                .unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap().contains("again 8"));
        assert!(size() <= 100);
    }
}
