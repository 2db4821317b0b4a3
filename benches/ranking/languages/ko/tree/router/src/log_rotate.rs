use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// 기록 파일이 정해진 크기를 넘으면 번호를 붙여 뒤로 물리고 새 파일을 연다.
/// 단말의 디스크가 작아서 끝없이 쌓이면 서비스가 통째로 멈춘다.
pub struct RotatingLog {
    path: PathBuf,
    limit: u64,
    keep: u32,
    file: File,
}

impl RotatingLog {
    pub fn open(path: PathBuf, limit: u64, keep: u32) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(Self { path, limit, keep, file })
    }

    pub fn line(&mut self, text: &str) -> io::Result<()> {
        if self.file.metadata()?.len() > self.limit {
            self.shift()?;
        }
        writeln!(self.file, "{}", scrub_line(text))
    }

    fn shift(&mut self) -> io::Result<()> {
        // 큰 번호부터 옮겨야 덮어쓰지 않는다
        for n in (1..self.keep).rev() {
            let _ = fs::rename(self.path.with_extension(n.to_string()), self.path.with_extension((n + 1).to_string()));
        }
        fs::rename(&self.path, self.path.with_extension("1"))?;
        self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        Ok(())
    }
}

/// 외부에서 들어온 글에 줄바꿈이 섞여 있으면 공격자가 가짜 기록을 끼워 넣을 수 있으므로 빈칸으로 바꾼다.
fn scrub_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
