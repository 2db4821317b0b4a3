export interface Stueck {
  id: string;
  bytes: number;
  konzert: string | null;
}

// Sucht aus, welche Stücke vorab aufs Tablet geladen werden. Das Programm des nächsten Konzerts
// kommt zuerst, denn in Kirchen und Festzelten gibt es selten Empfang.
export function planPrefetch(stuecke: Stueck[], naechstes: string, frei: number): Stueck[] {
  const rang = (s: Stueck) => (s.konzert === naechstes ? 0 : s.konzert ? 1 : 2);
  const plan: Stueck[] = [];
  for (const s of [...stuecke].sort((a, b) => rang(a) - rang(b))) {
    if (s.bytes <= frei) {
      plan.push(s);
      frei -= s.bytes;
    }
  }
  return plan;
}

// Vergleicht lokal gespeicherte Fassungen mit der Versionsliste des Servers und nennt die
// veralteten, die nachgeladen werden müssen.
export function staleEntries(lokal: Map<string, number>, server: Map<string, number>): string[] {
  return [...lokal].filter(([id, v]) => (server.get(id) ?? v) > v).map(([id]) => id);
}

// Räumt nach Ablauf der Leihfrist die Dateien vom Gerät. Eigene Anmerkungen werden vorher
// gesichert, die gehören dem Musiker und nicht dem Verlag.
export async function dropExpired(
  abgelaufen: string[],
  sichern: (id: string) => Promise<void>,
  loeschen: (id: string) => Promise<void>,
): Promise<void> {
  for (const id of abgelaufen) {
    await sichern(id);
    await loeschen(id);
  }
}
