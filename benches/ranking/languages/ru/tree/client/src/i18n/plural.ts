/** Три формы русского существительного. */
export type Forms = [one: string, few: string, many: string];

/**
 * Подбирает форму слова к числу: 1 день, 2 дня, 5 дней. Числа с 11 по 14 стоят особняком,
 * на них и спотыкалась прежняя версия.
 */
export function plural(count: number, forms: Forms): string {
  const tens = Math.abs(count) % 100;
  const ones = tens % 10;
  if (tens > 10 && tens < 15) return forms[2];
  if (ones === 1) return forms[0];
  return ones >= 2 && ones <= 4 ? forms[1] : forms[2];
}

/** Пишет сумму по-русски: разряды через неразрывный пробел, копейки только если они есть. */
export function formatRubles(kopecks: number): string {
  const rubles = Math.trunc(kopecks / 100).toString().replace(/\B(?=(\d{3})+$)/g, "\u00a0");
  const rest = Math.abs(kopecks % 100);
  return rest ? `${rubles},${String(rest).padStart(2, "0")}\u00a0₽` : `${rubles}\u00a0₽`;
}

/**
 * Показывает прошедшее время словами: «только что», «5 минут назад», «вчера».
 * Точная дата на экране никому не нужна, пока событие свежее.
 */
export function timeAgo(then: Date, now: Date): string {
  const minutes = Math.floor((now.getTime() - then.getTime()) / 60000);
  if (minutes < 1) return "только что";
  if (minutes < 60) return `${minutes} ${plural(minutes, ["минуту", "минуты", "минут"])} назад`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} ${plural(hours, ["час", "часа", "часов"])} назад`;
  return hours < 48 ? "вчера" : then.toLocaleDateString("ru-RU");
}
