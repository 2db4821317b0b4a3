/// Vereinheitlicht Suchbegriffe: Kleinschreibung, aufgelöste Umlaute, keine Akzente. Damit
/// findet "Dvorak" auch Dvořák und "Haendel" auch Händel.
pub fn fold(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in s.to_lowercase().chars() {
        match c {
            'ä' => out.push_str("ae"),
            'ö' => out.push_str("oe"),
            'ü' => out.push_str("ue"),
            'ß' => out.push_str("ss"),
            'á' | 'à' | 'â' => out.push('a'),
            'é' | 'è' | 'ê' => out.push('e'),
            'ř' => out.push('r'),
            _ => out.push(c),
        }
    }
    out
}

/// Erkennt Werkverzeichnisnummern wie "KV 550" oder "BWV 1068". Sie werden als Ganzes
/// gesucht und nicht in Einzelwörter zerhackt.
pub fn catalogue_number(s: &str) -> Option<(&str, u32)> {
    let (kuerzel, nummer) = s.trim().split_once(' ')?;
    if !["KV", "BWV", "HWV", "D", "Hob", "op."].contains(&kuerzel) {
        return None;
    }
    Some((kuerzel, nummer.parse().ok()?))
}

/// Bewertet, wie gut ein Titel zur Anfrage passt. Ein Treffer am Wortanfang wiegt doppelt so
/// schwer wie einer mitten im Wort.
pub fn score_title(titel: &str, anfrage: &str) -> u32 {
    let (titel, anfrage) = (fold(titel), fold(anfrage));
    titel
        .split_whitespace()
        .map(|w| if w.starts_with(&anfrage) { 2 } else { u32::from(w.contains(&anfrage)) })
        .sum()
}
