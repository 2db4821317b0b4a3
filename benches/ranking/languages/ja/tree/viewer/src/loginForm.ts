/** 入力欄ごとのエラーメッセージ。 */
export type FieldErrors = Partial<Record<"card" | "password", string>>;

/** 利用者カードの番号を検査する。全角で入力された数字は半角に直してから、末尾の検査数字を確かめる。 */
export function checkCard(input: string): string | null {
  const digits = input.normalize("NFKC").replace(/[\s-]/g, "");
  if (!/^\d{8}$/.test(digits)) return null;
  const sum = [...digits.slice(0, 7)].reduce((acc, d, i) => acc + Number(d) * (8 - i), 0);
  return sum % 10 === Number(digits[7]) ? digits : null;
}

/**
 * 二重送信の防止。ボタンを連打されても、最初の送信が終わるまでは次を受け付けない。
 */
export function once<T>(send: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | null = null;
  return () => {
    running ??= send().finally(() => {
      running = null;
    });
    return running;
  };
}
