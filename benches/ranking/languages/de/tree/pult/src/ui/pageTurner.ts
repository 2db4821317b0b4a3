// Mögliche Auslöser fürs Blättern; die Dirigentin kann alle Pulte zugleich weiterschalten.
export type TurnSource = "pedal" | "wisch" | "dirigent";

// Blättert vor oder zurück und verhindert, dass man über das Ende des Stücks hinausläuft.
// Bei Wiederholungszeichen springt die Anzeige an den Anfang des Abschnitts.
export class PageTurner {
  private seite = 1;

  constructor(
    private readonly letzte: number,
    private readonly wiederholungen: Map<number, number>,
  ) {}

  turn(richtung: 1 | -1): number {
    const sprung = richtung === 1 ? this.wiederholungen.get(this.seite) : undefined;
    if (sprung !== undefined) {
      // jede Wiederholung nur ein einziges Mal spielen
      this.wiederholungen.delete(this.seite);
      this.seite = sprung;
    } else {
      this.seite = Math.min(this.letzte, Math.max(1, this.seite + richtung));
    }
    return this.seite;
  }
}

// Zeigt oben schon den Beginn der Folgeseite, während unten noch die aktuelle steht.
// Musiker lesen immer ein paar Takte voraus und würden sonst ins Leere schauen.
export function halfPageView(seite: number, letzte: number): { oben: number; unten: number } {
  const unten = seite < letzte ? seite : letzte;
  return { oben: Math.min(seite + 1, letzte), unten };
}

// Deutet eine Wischgeste: Kurze oder schräge Bewegungen sind meist nur ein Ärmel am Glas.
export function isSwipe(dx: number, dy: number, dauerMs: number): boolean {
  return Math.abs(dx) > 60 && Math.abs(dx) > 2 * Math.abs(dy) && dauerMs < 500;
}
