export interface Punkt {
  x: number;
  y: number;
  druck: number;
}

// Glättet die zittrige Stiftspur durch gleitende Mittelwerte. Anfang und Ende des Strichs
// bleiben unangetastet, damit Bindebögen genau am Notenkopf ansetzen.
export function smoothStroke(punkte: Punkt[]): Punkt[] {
  return punkte.map((p, i) => {
    const vor = punkte[i - 1];
    const nach = punkte[i + 1];
    if (!vor || !nach) return p;
    return { x: (vor.x + p.x + nach.x) / 3, y: (vor.y + p.y + nach.y) / 3, druck: p.druck };
  });
}

// Der Radiergummi entfernt ganze Striche, sobald er einen ihrer Punkte berührt.
export function eraseAt(striche: Punkt[][], x: number, y: number, radius: number): Punkt[][] {
  return striche.filter((s) => !s.some((p) => Math.hypot(p.x - x, p.y - y) <= radius));
}

// Merkt sich die letzten fünfzig Zeichenschritte fürs Rückgängigmachen. Ein neuer Strich
// nach dem Zurücknehmen verwirft die Zukunft.
export class UndoStack<T> {
  private vergangen: T[] = [];
  private kommend: T[] = [];

  push(schritt: T): void {
    this.vergangen = [...this.vergangen, schritt].slice(-50);
    this.kommend = [];
  }

  undo(): T | undefined {
    const schritt = this.vergangen.pop();
    if (schritt !== undefined) this.kommend.push(schritt);
    return schritt;
  }
}
