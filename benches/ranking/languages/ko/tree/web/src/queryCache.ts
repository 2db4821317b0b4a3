interface Entry { value: unknown; at: number }

// 화면이 서버에서 받아온 응답을 기억해 두는 캐시. 묵은 값이라도 우선 보여 주고
// 뒤에서 새 값을 받아 와 갈아 끼우므로 사용자는 빈 화면을 보지 않는다.
export class QueryCache {
  private entries = new Map<string, Entry>();
  private flying = new Map<string, Promise<unknown>>();

  peek(key: string, maxAge: number, now: number): { value: unknown; stale: boolean } | null {
    const hit = this.entries.get(key);
    return hit ? { value: hit.value, stale: now - hit.at > maxAge } : null;
  }

  // 같은 자료를 여러 부품이 동시에 달라고 해도 네트워크 요청은 하나만 나가게 합친다.
  fetchOnce(key: string, load: () => Promise<unknown>, now: number): Promise<unknown> {
    const running = this.flying.get(key);
    if (running) return running;
    const job = load()
      .then((value) => {
        this.entries.set(key, { value, at: now });
        return value;
      })
      .finally(() => this.flying.delete(key));
    this.flying.set(key, job);
    return job;
  }
}

// 객체의 속성 순서가 달라도 같은 열쇠가 나오도록 이름순으로 정렬해 문자열로 만든다.
export function stableKey(name: string, params: Record<string, unknown>): string {
  const sorted = Object.keys(params).sort().map((k) => `${k}=${JSON.stringify(params[k])}`);
  return `${name}?${sorted.join("&")}`;
}
