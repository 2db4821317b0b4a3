/** ブラウザーに保存した頁の情報。 */
export interface SavedPage {
  id: string;
  bytes: number;
  lastRead: number;
}

/**
 * 容量が足りなくなったとき、端末に保存した頁のうちどれを消すかを選ぶ。
 * 長い間読んでいないものから順に、必要な大きさに達するまで集める。
 */
export function choosePagesToDrop(pages: SavedPage[], needed: number): string[] {
  const drop: string[] = [];
  let freed = 0;
  for (const p of [...pages].sort((a, b) => a.lastRead - b.lastRead)) {
    if (freed >= needed) break;
    drop.push(p.id);
    freed += p.bytes;
  }
  return drop;
}

/** 電波の届かない場所で書いた注釈を溜めておき、通信が戻ったときに衝突を調べて送る。 */
export function mergeNotes(local: Map<string, number>, remote: Map<string, number>): string[] {
  const conflicts: string[] = [];
  for (const [id, rev] of local) {
    // サーバー側の版のほうが新しければ、利用者に選んでもらう
    if ((remote.get(id) ?? 0) > rev) conflicts.push(id);
  }
  return conflicts;
}
