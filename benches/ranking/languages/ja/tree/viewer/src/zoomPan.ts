/** 表示領域の左上の座標と拡大率。 */
export interface View {
  x: number;
  y: number;
  scale: number;
}

/** マウスカーソルの真下にある点が動かないように拡大・縮小する。 */
export function zoomAt(v: View, px: number, py: number, factor: number): View {
  const scale = Math.min(16, Math.max(0.1, v.scale * factor));
  return {
    x: v.x + px / v.scale - px / scale,
    y: v.y + py / v.scale - py / scale,
    scale,
  };
}

/** 画像が画面の外へ完全に逃げてしまわないよう、移動できる範囲を端で止める。 */
export function clampPan(v: View, width: number, height: number): View {
  return { ...v, x: Math.min(width, Math.max(0, v.x)), y: Math.min(height, Math.max(0, v.y)) };
}

/** 指を離したあとの慣性スクロールの速度。摩擦で減衰し、十分遅くなったらゼロにする。 */
export function glide(velocity: number, elapsedMs: number): number {
  const v = velocity * Math.exp(-elapsedMs / 325);
  return Math.abs(v) < 0.02 ? 0 : v;
}
