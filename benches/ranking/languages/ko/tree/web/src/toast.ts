type Level = "info" | "warn" | "fail";
export interface Toast { text: string; level: Level; until: number }

// 화면 아래에 잠깐 떴다가 사라지는 알림 막대를 관리한다. 한꺼번에 셋까지만 보이고
// 넘치는 것은 오래된 순서로 밀려난다.
export class ToastStack {
  private shown: Toast[] = [];

  show(text: string, level: Level, now: number): void {
    const same = this.shown.find((t) => t.text === text);
    if (same) {
      // 똑같은 문구가 연달아 오면 새로 띄우지 않고 시간만 늘린다
      same.until = now + linger(text, level);
      return;
    }
    this.shown.push({ text, level, until: now + linger(text, level) });
    this.shown = this.shown.slice(-3);
  }

  visible(now: number): Toast[] {
    return this.shown.filter((t) => t.until > now);
  }
}

// 알림을 몇 초 동안 띄워 둘지 글의 길이에 맞춰 정한다. 오류는 놓치기 쉬우니 두 배로 오래 둔다.
export function linger(text: string, level: Level): number {
  const reading = 1500 + text.length * 60;
  return level === "fail" ? reading * 2 : reading;
}

// 서버가 준 오류 코드를 고객이 알아들을 수 있는 우리말 문장으로 옮긴다.
export function friendlyError(code: string): string {
  const table: Record<string, string> = { E_FULL: "빈칸이 없습니다", E_JAM: "문이 걸렸습니다" };
  return table[code] ?? "잠시 후 다시 시도해 주세요";
}
