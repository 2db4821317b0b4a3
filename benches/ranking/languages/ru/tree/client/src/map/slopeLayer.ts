/** Горнолыжная трасса, как её отдаёт сервер. */
export interface Slope {
  id: string;
  name: string;
  level: "green" | "blue" | "red" | "black";
  open: boolean;
  points: [number, number][];
}

/**
 * Цвет линии трассы на карте. Закрытые рисуем серым независимо от сложности,
 * чтобы никто не принял их за доступные.
 */
export function slopeColor(slope: Slope): string {
  if (!slope.open) return "#9e9e9e";
  return { green: "#2e7d32", blue: "#1565c0", red: "#c62828", black: "#212121" }[slope.level];
}

/** Упрощает ломаную перед отрисовкой: выбрасывает точки, что на текущем масштабе ближе пары пикселей к соседней. */
export function simplify(points: [number, number][], zoom: number): [number, number][] {
  const minStep = 2 / zoom;
  return points.filter((p, i) => {
    if (i === 0 || i === points.length - 1) return true;
    const [x, y] = points[i - 1];
    return Math.hypot(p[0] - x, p[1] - y) >= minStep;
  });
}

/**
 * Находит трассу под пальцем. Берём ближайшую в пределах допуска, потому что попасть
 * в перчатке точно в тонкую линию невозможно.
 */
export function slopeAt(slopes: Slope[], x: number, y: number, tolerance = 24): Slope | undefined {
  let best: Slope | undefined;
  let bestDistance = tolerance;
  for (const slope of slopes) {
    for (const [px, py] of slope.points) {
      const distance = Math.hypot(px - x, py - y);
      if (distance < bestDistance) [best, bestDistance] = [slope, distance];
    }
  }
  return best;
}
