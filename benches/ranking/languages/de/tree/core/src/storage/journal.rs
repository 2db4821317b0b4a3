use std::io::{self, Read, Write};

/// Ein Eintrag im Änderungsjournal: laufende Nummer plus serialisierte Änderung.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub seq: u64,
    pub payload: Vec<u8>,
}

/// Hängt einen Datensatz ans Ende des Journals an. Länge und Quersumme stehen davor,
/// damit sich beim Lesen ein abgerissener Schwanz erkennen lässt.
pub fn append<W: Write>(w: &mut W, rec: &Record) -> io::Result<()> {
    w.write_all(&rec.seq.to_le_bytes())?;
    w.write_all(&(rec.payload.len() as u32).to_le_bytes())?;
    w.write_all(&checksum(&rec.payload).to_le_bytes())?;
    w.write_all(&rec.payload)
}

/// Spielt das Journal nach einem Absturz wieder ein und hört beim ersten beschädigten
/// Eintrag auf. Alles dahinter gilt als nie geschehen.
pub fn replay<R: Read>(r: &mut R) -> Vec<Record> {
    let mut out = Vec::new();
    let mut kopf = [0u8; 16];
    while r.read_exact(&mut kopf).is_ok() {
        let seq = u64::from_le_bytes(kopf[..8].try_into().unwrap());
        let len = u32::from_le_bytes(kopf[8..12].try_into().unwrap()) as usize;
        let soll = u32::from_le_bytes(kopf[12..].try_into().unwrap());
        let mut payload = vec![0; len];
        if r.read_exact(&mut payload).is_err() || checksum(&payload) != soll {
            break;
        }
        out.push(Record { seq, payload });
    }
    out
}

/// Einfache rollierende Quersumme; sie soll Übertragungsfehler finden, keine Fälschungen.
fn checksum(daten: &[u8]) -> u32 {
    daten.iter().fold(1, |s: u32, b| s.rotate_left(5) ^ u32::from(*b))
}
