use std::time::Duration;

/// Legt fest, wie geduldig der Abgleich nach einem Verbindungsabbruch ist.
pub struct Backoff {
    pub anfang: Duration,
    pub hoechstens: Duration,
    pub versuch: u32,
}

impl Backoff {
    /// Verdoppelt die Pause mit jedem Fehlschlag bis zu einer Obergrenze. Eine Zufallskomponente
    /// sorgt dafür, dass nach einem WLAN-Ausfall nicht alle Tablets im selben Moment anklopfen.
    pub fn next_delay(&mut self, zufall: f64) -> Duration {
        let faktor = 2u32.saturating_pow(self.versuch.min(16));
        self.versuch += 1;
        let roh = self.anfang.saturating_mul(faktor).min(self.hoechstens);
        roh.mul_f64(0.5 + zufall / 2.0)
    }
}

/// Grund, aus dem ein Abgleich scheiterte.
pub enum SyncError {
    KeinNetz,
    Abgemeldet,
    Versionskonflikt,
}

/// Unterscheidet vorübergehende von dauerhaften Störungen. Wer abgemeldet ist, braucht ein
/// neues Kennwort und keinen weiteren Anlauf.
pub fn is_transient(e: &SyncError) -> bool {
    matches!(e, SyncError::KeinNetz | SyncError::Versionskonflikt)
}
