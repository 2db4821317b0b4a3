type Nachricht = { nr: number; inhalt: string };

// Hält die Leitung zum Pultserver offen und baut sie nach einem Abbruch selbsttätig neu auf.
// Unterdessen Gesendetes wird gesammelt und danach in der alten Reihenfolge nachgereicht.
export class PultSocket {
  private ausgang: Nachricht[] = [];
  private ws: WebSocket | null = null;
  private nr = 0;

  connect(url: string): void {
    this.ws = new WebSocket(url);
    this.ws.onopen = () => this.flush();
    this.ws.onclose = () => setTimeout(() => this.connect(url), 2000);
  }

  send(inhalt: string): void {
    this.ausgang.push({ nr: ++this.nr, inhalt });
    this.flush();
  }

  private flush(): void {
    while (this.ws?.readyState === WebSocket.OPEN && this.ausgang.length > 0) {
      this.ws.send(JSON.stringify(this.ausgang.shift()));
    }
  }
}

// Misst den Uhrenversatz zum Server aus Hin- und Rückweg eines Pings. Ohne diesen Ausgleich
// liefe das Metronom auf jedem Pult ein wenig anders.
export function clockOffset(gesendet: number, serverzeit: number, empfangen: number): number {
  return serverzeit - (gesendet + empfangen) / 2;
}

// Erkennt Lücken in der Nummernfolge; fehlt etwas, muss das Pult den vollen Stand anfordern.
export function hasGap(letzte: number, neu: number): boolean {
  return neu !== letzte + 1;
}
