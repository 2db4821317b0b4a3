use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Дисковый кэш миниатюр с камер на склонах. Ограничен суммарным объёмом, а не числом файлов:
/// ночные кадры весят впятеро меньше дневных.
pub struct ThumbCache {
    pub dir: PathBuf,
    pub max_bytes: u64,
}

impl ThumbCache {
    /// Строит путь к миниатюре. Раскладываем по подкаталогам по первым двум знакам хеша,
    /// потому что сто тысяч файлов в одной папке файловая система еле ворочает.
    pub fn path_for(&self, hash: &str, width: u32) -> PathBuf {
        self.dir.join(&hash[..2]).join(format!("{hash}-{width}.jpg"))
    }

    /// Освобождает место: выкидывает картинки, к которым дольше всего не обращались,
    /// пока общий объём не станет меньше разрешённого.
    pub fn evict(&self) -> io::Result<u64> {
        let mut by_time = BTreeMap::new();
        let mut total = 0;
        for shard in fs::read_dir(&self.dir)? {
            for file in fs::read_dir(shard?.path())? {
                let file = file?;
                let meta = file.metadata()?;
                total += meta.len();
                by_time.insert((meta.accessed()?, file.path()), meta.len());
            }
        }
        let mut freed = 0;
        while total - freed > self.max_bytes {
            let Some(((_, path), len)) = by_time.pop_first() else { break };
            fs::remove_file(Path::new(&path))?;
            freed += len;
        }
        Ok(freed)
    }
}
