use std::collections::BTreeMap;

/// Eine Eintragung am Notenblatt, mit logischem Zeitstempel und Herkunftsgerät.
#[derive(Clone, Debug)]
pub struct Eintragung {
    pub uhr: u64,
    pub geraet: String,
    pub text: Option<String>,
}

/// Führt die Anmerkungen zweier Geräte zusammen, die eine Zeit lang offline waren. Bei
/// Widersprüchen siegt der jüngere Stempel, bei Gleichstand der größere Gerätename.
pub fn merge_annotations(
    a: &BTreeMap<u32, Eintragung>,
    b: &BTreeMap<u32, Eintragung>,
) -> BTreeMap<u32, Eintragung> {
    let mut out = a.clone();
    for (takt, neu) in b {
        match out.get(takt) {
            Some(alt) if (alt.uhr, &alt.geraet) >= (neu.uhr, &neu.geraet) => {}
            _ => {
                out.insert(*takt, neu.clone());
            }
        }
    }
    out
}

/// Entfernt Grabsteine gelöschter Eintragungen, sobald alle Geräte sie gesehen haben.
/// Früher dürfen sie nicht weg, sonst taucht Gelöschtes beim Abgleich wieder auf.
pub fn purge_tombstones(stand: &mut BTreeMap<u32, Eintragung>, von_allen_gesehen: u64) {
    stand.retain(|_, e| e.text.is_some() || e.uhr > von_allen_gesehen);
}

/// Stellt die logische Uhr vor, wenn ein fremder Stempel weiter ist als der eigene.
pub fn advance_clock(eigene: u64, fremde: u64) -> u64 {
    eigene.max(fremde) + 1
}
