use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Ablage für gescannte Partituren. Der Dateiname ist die Prüfsumme des Inhalts, doppelt
/// hochgeladene Scans belegen deshalb nur einmal Platz.
pub struct BlobStore {
    wurzel: PathBuf,
}

impl BlobStore {
    /// Fächert die Dateien nach den ersten beiden Zeichen der Prüfsumme auf Unterordner auf.
    /// Ein Verzeichnis mit hunderttausend Einträgen wäre auf dem NAS unerträglich langsam.
    fn shard_path(&self, digest: &str) -> PathBuf {
        self.wurzel.join(&digest[..2]).join(digest)
    }

    /// Schreibt erst in eine temporäre Datei und benennt sie dann um. Bei Stromausfall liegt
    /// entweder der alte oder der vollständige neue Inhalt da, nie ein halber.
    pub fn put_atomic(&self, digest: &str, inhalt: &[u8]) -> io::Result<()> {
        let ziel = self.shard_path(digest);
        fs::create_dir_all(ziel.parent().unwrap())?;
        let tmp = ziel.with_extension("teil");
        let mut f = File::create(&tmp)?;
        f.write_all(inhalt)?;
        f.sync_all()?; // sonst überlebt die Umbenennung, aber nicht der Inhalt
        fs::rename(tmp, ziel)
    }
}

/// Löscht liegen gebliebene Bruchstücke abgebrochener Schreibvorgänge. Wird nur beim
/// Hochfahren aufgerufen, solange noch niemand schreibt.
pub fn sweep_partials(ordner: &Path) -> io::Result<usize> {
    let mut anzahl = 0;
    for eintrag in fs::read_dir(ordner)? {
        let p = eintrag?.path();
        if p.extension().map_or(false, |e| e == "teil") {
            fs::remove_file(&p)?;
            anzahl += 1;
        }
    }
    Ok(anzahl)
}
