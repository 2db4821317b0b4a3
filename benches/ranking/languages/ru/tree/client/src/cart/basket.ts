/** Строка корзины. */
export interface Line {
  sku: string;
  count: number;
  kopecks: number;
  day: string;
}

const KEY = "basket.v3";

/**
 * Складывает одинаковые позиции корзины в одну строку. Абонементы на разные даты
 * не смешиваем, хотя артикул у них общий.
 */
export function mergeLines(lines: Line[]): Line[] {
  const byKey = new Map<string, Line>();
  for (const line of lines) {
    const key = `${line.sku}/${line.day}`;
    const known = byKey.get(key);
    byKey.set(key, known ? { ...known, count: known.count + line.count } : line);
  }
  return [...byKey.values()];
}

/** Семейная скидка: при двух и более взрослых самый дешёвый детский билет достаётся даром. */
export function familyDiscount(lines: Line[]): number {
  const adults = lines.filter((l) => l.sku.startsWith("adult")).reduce((n, l) => n + l.count, 0);
  const kids = lines.filter((l) => l.sku.startsWith("child")).map((l) => l.kopecks);
  return adults >= 2 && kids.length > 0 ? Math.min(...kids) : 0;
}

/** Восстанавливает корзину из хранилища браузера. Позиции на уже прошедшие дни молча выкидываем. */
export function restoreBasket(storage: Storage, today: string): Line[] {
  try {
    const lines = JSON.parse(storage.getItem(KEY) ?? "[]") as Line[];
    return lines.filter((line) => line.day >= today);
  } catch {
    // Испорченная запись не повод показывать белый экран.
    storage.removeItem(KEY);
    return [];
  }
}
