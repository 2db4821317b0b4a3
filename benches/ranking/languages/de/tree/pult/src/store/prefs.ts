// Persönliche Einstellungen am Pult, etwa Helligkeit und Händigkeit.
export interface Prefs {
  version: number;
  helligkeit: number;
  linkshaendig: boolean;
  nachtmodus: "aus" | "an" | "graben";
}

const VORGABE: Prefs = { version: 3, helligkeit: 0.8, linkshaendig: false, nachtmodus: "aus" };

// Hebt gespeicherte Einstellungen älterer App-Versionen auf das heutige Format. Fehlende
// Felder werden mit den Vorgaben aufgefüllt, unbekannte fallen weg.
export function migratePrefs(alt: Record<string, unknown>): Prefs {
  const neu: Prefs = { ...VORGABE };
  if (typeof alt.helligkeit === "number") {
    // bis Version 2 war die Helligkeit in Prozent abgelegt
    neu.helligkeit = (alt.version as number) < 3 ? alt.helligkeit / 100 : alt.helligkeit;
  }
  if (typeof alt.linkshaendig === "boolean") neu.linkshaendig = alt.linkshaendig;
  if (alt.dunkel === true) neu.nachtmodus = "an";
  return neu;
}

// Im Orchestergraben darf das Display kaum leuchten. Die Helligkeit richtet sich daher nach
// dem Umgebungslicht und wird bei aktivem Grabenmodus hart gedeckelt.
export function effectiveBrightness(p: Prefs, lux: number): number {
  const angepasst = p.helligkeit * Math.min(1, 0.3 + lux / 400);
  return p.nachtmodus === "graben" ? Math.min(angepasst, 0.15) : angepasst;
}
