/** 先読みする頁を決めるための読書の様子。 */
export interface Reading {
  page: number;
  direction: 1 | -1;
  pagesPerMinute: number;
}

/**
 * めくる向きと速さから、先に取り寄せておく頁の番号を決める。
 * 飛ばし読みのときは先読みを増やし、じっくり読んでいるときは通信量を節約する。
 */
export function pagesToPrefetch(r: Reading, total: number): number[] {
  const count = r.pagesPerMinute > 20 ? 6 : r.pagesPerMinute > 5 ? 3 : 1;
  const out: number[] = [];
  for (let i = 1; i <= count; i++) {
    const p = r.page + i * r.direction;
    if (p >= 0 && p < total) out.push(p);
  }
  return out;
}

/** もう見えなくなった頁の読み込みを中断し、回線を今の頁のために空ける。 */
export function abortStale(running: Map<number, AbortController>, visible: Set<number>): void {
  for (const [page, ctl] of running) {
    if (!visible.has(page)) {
      ctl.abort();
      running.delete(page);
    }
  }
}
