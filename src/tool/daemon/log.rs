//! The log of a daemon: a file that never grows beyond its budget.
//!
//! This module owns the files, and the guarantee that only logs are written to or replaced. At half
//! of the budget the file replaces the previous one. The lines come from `tracing` and hold
//! metadata only.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs2::FileExt;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::format::sys::is_at;

/// How many bytes of a file are read at most to recognize its first line.
const FIRST_LINE: u64 = 64 << 10;

/// How often to try to lock a file. A daemon that ends unlocks its log a little later than its
/// socket.
const LOCK_ATTEMPTS: u32 = 200;

/// The pause between two attempts to lock a file.
const NAP: Duration = Duration::from_millis(5);

/// A log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    len: u64,
    /// Half of the budget.
    most: u64,
}

/// Returns the path of the previous log file.
pub fn before(path: &Path) -> PathBuf {
    path.with_added_extension("1")
}

impl LogFile {
    /// Opens a log file. Together with the previous one it takes at most `budget` bytes. Only this
    /// user can read it.
    ///
    /// # Errors
    ///
    /// The error of the system, or that an existing file at one of the paths is no log.
    pub fn open(path: &Path, budget: u64) -> io::Result<LogFile> {
        // Checked before any file is created or removed.
        check(&before(path))?;
        let file = open(path)?;
        if !is_log(&file)? {
            return Err(no_log(path));
        }
        let len = end_line(&file)?;
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
            log.rotate()?;
            match std::fs::remove_file(older) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(log)
    }

    fn rotate(&mut self) -> io::Result<()> {
        // Another program may have put a file at either path meanwhile. One that is no log makes
        // this fail, and stays as it is.
        check(&before(&self.path))?;
        match is_at(&self.file, &self.path)? {
            true => std::fs::rename(&self.path, before(&self.path))?,
            // The log was moved or removed: continue in the log that is there now, or in a new one.
            false => check(&self.path)?,
        }
        self.file = open(&self.path)?;
        self.len = self.file.metadata()?.len();
        Ok(())
    }
}

/// Ends a line that was cut off, so that the next one starts on a line of its own; returns the
/// length.
fn end_line(mut file: &File) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let mut last = [b'\n'];
    if len > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != *b"\n" {
        file.write_all(b"\n")?;
        return Ok(len + 1);
    }
    Ok(len)
}

/// Checks that the file at a path, if any, may be replaced.
fn check(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match careful(options.read(true)).open(path) {
        Ok(file) if is_log(&file)? => Ok(()),
        Ok(_) => Err(no_log(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("{}: {error}", path.display()),
        )),
    }
}

/// Follows no link, and does not wait for the other end of a pipe.
fn careful(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.mode(0o600).custom_flags(flags.bits().cast_signed())
}

/// Returns whether a file is empty, or its first line is a log entry: an object with `timestamp`,
/// `level` and `target`.
fn is_log(file: &File) -> io::Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut line = Vec::new();
    let mut begin = BufReader::new(file.take(FIRST_LINE));
    begin.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(true);
    }
    let Ok(Value::Object(fields)) = serde_json::from_slice(&line) else {
        // A first line that was cut off when the disk was full.
        return Ok(line.starts_with(br#"{"timestamp":"2"#));
    };
    let is_text = |name| fields.get(name).is_some_and(Value::is_string);
    Ok(["timestamp", "level", "target"].into_iter().all(is_text))
}

fn no_log(path: &Path) -> io::Error {
    let why = format!(
        "{} exists and is not the log of a daemon; name another file, or move this file away",
        path.display()
    );
    io::Error::new(io::ErrorKind::AlreadyExists, why)
}

fn open(path: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(no_log(path)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let file = careful(options.create(true).read(true).append(true)).open(path)?;
    // Two writers would together exceed the budget. File systems without locks can't detect a
    // second one.
    let is_locked_elsewhere = || {
        let locked = file.try_lock_exclusive();
        locked.is_err_and(|error| error.kind() == fs2::lock_contended_error().kind())
    };
    for _ in 0..LOCK_ATTEMPTS {
        if !is_locked_elsewhere() {
            return Ok(file);
        }
        std::thread::sleep(NAP);
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another daemon logs to this file; name another file",
    ))
}

impl Write for LogFile {
    /// Writes a line. Skips a line that is longer than half of the budget.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let bytes = line.len() as u64;
        if bytes > self.most {
            return Ok(line.len());
        }
        if self.len + bytes > self.most {
            self.rotate()?;
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
    fn a_log_stays_within_its_budget_and_keeps_the_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let size = || {
            let len = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
            len(path.clone()) + len(before(&path))
        };
        let mut log = LogFile::open(&path, 1_000).unwrap();
        for n in 0..500 {
            log.write_all(line(&format!("line {n:03}")).as_bytes())
                .unwrap();
            assert!(size() <= 1_000, "{}", size());
        }
        log.write_all(&vec![b'y'; 5_000]).unwrap();
        assert!(size() <= 1_000 && size() > 400);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().last().unwrap().contains("line 499"));
        drop(log);
        // Appends to the existing file; a smaller budget applies from the start.
        let mut log = LogFile::open(&path, 1_000).unwrap();
        log.write_all(b"more\n").unwrap();
        let kept = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let all = kept(before(&path)) + &kept(path.clone());
        assert!(all.contains("line 499") && all.ends_with("more\n"), "{all}");
        assert!(size() <= 1_000, "{}", size());
        drop(log);
        let log = LogFile::open(&path, 200).unwrap();
        assert!(size() <= 200);
        drop(log);
        // After the file was removed, it continues in a new one.
        let mut log = LogFile::open(&path, 1_000).unwrap();
        std::fs::remove_file(&path).unwrap();
        for n in 0..9 {
            log.write_all(line(&format!("again {n}")).as_bytes())
                .unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap().contains("again 8"));
        assert!(size() <= 1_000);
    }

    /// A line in the format of `tracing`.
    fn line(says: &str) -> String {
        let time = "2026-01-01T00:00:00.000000Z";
        format!(
            "{{\"timestamp\":\"{time}\",\"level\":\"INFO\",\"message\":\"{says}\",\"target\":\"t\"}}\n"
        )
    }

    #[test]
    fn a_file_that_is_no_log_is_neither_written_to_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let long = "text\n".repeat(1_000);
        for (name, text) in [
            ("x.log", "text\n"),
            ("x.log", "{\"name\": \"x\"}\n"),
            ("x.log", long.as_str()),
            ("x.log.1", "text"),
            ("x.log.1", long.as_str()),
        ] {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            let error = LogFile::open(&path, 1_000).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("not the log of a daemon"),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
            std::fs::remove_file(&file).unwrap();
            let left = std::fs::read_dir(dir.path()).unwrap().count();
            assert_eq!(left, 0, "nothing was made");
        }
        std::fs::write(&path, line("as before")).unwrap();
        drop(LogFile::open(&path, 1_000).unwrap());
        std::fs::write(&path, "").unwrap();
        drop(LogFile::open(&path, 1_000).unwrap());
        // A full disk has cut it off.
        std::fs::write(&path, &line("cut")[..60]).unwrap();
        let mut log = LogFile::open(&path, 1_000).unwrap();
        log.write_all(line("whole").as_bytes()).unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.ends_with(&format!("\n{}", line("whole"))), "{kept}");
    }

    #[test]
    fn a_file_that_was_put_in_the_place_of_a_log_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        for at in [path.clone(), before(&path)] {
            let mut log = LogFile::open(&path, 1_000).unwrap();
            log.write_all(line("first").as_bytes()).unwrap();
            // A new file, not the old log overwritten.
            let _ = std::fs::remove_file(&at);
            std::fs::write(&at, "somebody's text\n").unwrap();
            let mut wrote = (0..9).map(|_| log.write_all(line("more").as_bytes()));
            assert!(wrote.any(|wrote| wrote.is_err()));
            assert_eq!(std::fs::read_to_string(&at).unwrap(), "somebody's text\n");
            std::fs::remove_file(&at).unwrap();
            drop(log);
            let _ = std::fs::remove_file(&path);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_log_must_be_a_regular_file() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, link) = (dir.path().join("fifo"), dir.path().join("link"));
        use rustix::fs::{CWD, Mode, mkfifoat};
        mkfifoat(CWD, &fifo, Mode::RWXU).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        for path in [fifo.as_path(), &link, dir.path(), Path::new("/dev/null")] {
            let error = LogFile::open(path, 1_000).unwrap_err().to_string();
            assert!(error.contains("not the log of a daemon"), "{error}");
        }
        assert!(!elsewhere.exists());
        // Nor may the previous log be a pipe.
        std::fs::rename(&fifo, dir.path().join("x.log.1")).unwrap();
        assert!(LogFile::open(&dir.path().join("x.log"), 1_000).is_err());
    }
}
