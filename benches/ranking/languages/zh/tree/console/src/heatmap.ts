/** 单个格口在一段时间内的使用次数。 */
export interface CellUsage {
  row: number;
  column: number;
  opens: number;
}

/**
 * 把使用次数换算成热力图的颜色，冷门的格口偏蓝，热门的偏红。
 * 取对数以后再映射，不然个别特别忙的格口会让其余的全都挤成一个颜色。
 */
export function heatColor(opens: number, max: number): string {
  const t = max <= 0 ? 0 : Math.log1p(opens) / Math.log1p(max);
  const hue = Math.round(240 * (1 - t));
  return `hsl(${hue}, 80%, 50%)`;
}

/** 在画布上绘制整面柜子的热力图，高分屏下按像素比放大以免模糊。 */
export function drawHeatmap(ctx: CanvasRenderingContext2D, cells: CellUsage[], size: number): void {
  const ratio = window.devicePixelRatio || 1;
  const max = Math.max(0, ...cells.map((c) => c.opens));
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  for (const c of cells) {
    ctx.fillStyle = heatColor(c.opens, max);
    ctx.fillRect(c.column * size, c.row * size, size - 1, size - 1);
  }
}
