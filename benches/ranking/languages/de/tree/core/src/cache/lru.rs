use std::collections::{HashMap, VecDeque};

/// Zwischenspeicher mit fester Obergrenze in Bytes. Ist er voll, fliegt zuerst hinaus,
/// was am längsten nicht mehr gebraucht wurde.
pub struct Lru {
    werte: HashMap<String, Vec<u8>>,
    folge: VecDeque<String>,
    belegt: usize,
    grenze: usize,
}

impl Lru {
    /// Rückt einen Eintrag nach ganz vorn, weil er gerade benutzt wurde.
    fn promote(&mut self, key: &str) {
        self.folge.retain(|k| k != key);
        self.folge.push_front(key.to_string());
    }

    /// Verdrängt alte Einträge, bis der gewünschte Platz frei ist. Angeheftete Stücke des
    /// laufenden Konzertprogramms bleiben in jedem Fall verschont.
    fn evict_for(&mut self, bedarf: usize, angeheftet: &[String]) {
        let mut i = self.folge.len();
        while self.belegt + bedarf > self.grenze && i > 0 {
            i -= 1;
            if angeheftet.contains(&self.folge[i]) {
                continue;
            }
            if let Some(k) = self.folge.remove(i) {
                self.belegt -= self.werte.remove(&k).map_or(0, |v| v.len());
            }
        }
    }

    /// Trefferquote seit Programmstart in Prozent, für die Anzeige in der Verwaltung.
    pub fn hit_rate(treffer: u64, fehlgriffe: u64) -> f64 {
        match treffer + fehlgriffe {
            0 => 0.0, // noch keine Abfrage, keine Division durch null
            n => 100.0 * treffer as f64 / n as f64,
        }
    }
}
