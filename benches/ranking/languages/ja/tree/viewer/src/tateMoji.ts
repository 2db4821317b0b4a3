/** 縦書きの翻刻文における一文字の配置。 */
export interface Placed {
  ch: string;
  x: number;
  y: number;
  rotate: boolean;
}

/**
 * 翻刻した文章を縦書きで右の行から左へ並べる。
 * 長音記号や括弧は縦書きでは向きが変わるので、九十度回転させる印を付ける。
 */
export function layoutTate(text: string, rows: number, size: number): Placed[] {
  return [...text].map((ch, i) => ({
    ch,
    x: -Math.floor(i / rows) * size,
    y: (i % rows) * size,
    rotate: "ー―（）「」".includes(ch),
  }));
}

/** 行頭に来てはいけない句読点を、前の行の末尾にぶら下げる（禁則処理）。 */
export function hangPunctuation(lines: string[]): string[] {
  const out: string[] = [];
  for (const line of lines) {
    const lead = /^[、。」]+/.exec(line)?.[0] ?? "";
    if (lead && out.length > 0) out[out.length - 1] += lead;
    out.push(out.length > 0 ? line.slice(lead.length) : line);
  }
  return out;
}
