use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Записывает файл атомарно: сначала во временный рядом, затем переименование. Читатель видит
/// либо старое содержимое, либо новое, но никогда половину, даже если отключат питание.
pub fn write_atomic(path: &Path, data: &[u8]) -> io::Result<()> {
    let tmp = path.with_extension("part");
    let mut file = File::create(&tmp)?;
    file.write_all(data)?;
    file.sync_all()?;
    fs::rename(&tmp, path)?;
    // Без fsync каталога переименование может потеряться на ext4.
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Подчищает недописанные хвосты после падения службы. Совсем свежие не трогает: возможно,
/// их прямо сейчас пишет соседний процесс.
pub fn remove_leftovers(dir: &Path, older: Duration) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let stale = entry.path().extension().is_some_and(|e| e == "part");
        let age = SystemTime::now().duration_since(entry.metadata()?.modified()?).unwrap_or_default();
        if stale && age > older {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}
