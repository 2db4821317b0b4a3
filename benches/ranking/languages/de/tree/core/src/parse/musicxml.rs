/// Taktart, wie sie am Anfang eines Stücks oder bei einem Wechsel steht.
#[derive(Debug, PartialEq, Clone, Copy)]
pub struct TimeSignature {
    pub zaehler: u8,
    pub nenner: u8,
}

/// Zerlegt eine Angabe wie "6/8" in Zähler und Nenner. Der Nenner muss eine Zweierpotenz
/// sein, alles andere weist auf eine kaputte Exportdatei hin.
pub fn parse_time_signature(s: &str) -> Option<TimeSignature> {
    let (z, n) = s.trim().split_once('/')?;
    let zaehler: u8 = z.trim().parse().ok()?;
    let nenner: u8 = n.trim().parse().ok()?;
    if zaehler == 0 || !nenner.is_power_of_two() {
        return None;
    }
    Some(TimeSignature { zaehler, nenner })
}

/// Rechnet eine Transposition in Halbtönen aus, etwa für Klarinetten in B oder Hörner in F.
/// Unbekannte Instrumente klingen wie notiert.
pub fn transposition(stimmung: &str) -> i8 {
    match stimmung {
        "B" => -2,
        "A" => -3,
        "F" => -7,
        "Es" => 3,
        _ => 0,
    }
}

/// Sucht die Probenbuchstaben im Text und merkt sich, in welchem Takt sie stehen. Der Dirigent
/// sagt "ab Buchstabe C", und alle Pulte springen dorthin.
pub fn rehearsal_marks(takte: &[Option<&str>]) -> Vec<(char, usize)> {
    takte
        .iter()
        .enumerate()
        .filter_map(|(i, t)| t.and_then(|t| t.chars().next()).map(|c| (c, i + 1)))
        .filter(|(c, _)| c.is_ascii_uppercase())
        .collect()
}
