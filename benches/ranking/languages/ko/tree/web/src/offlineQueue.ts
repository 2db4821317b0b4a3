export interface Pending { id: string; url: string; body: string; tries: number }

// 기사 앱이 지하 주차장처럼 전파가 닿지 않는 곳에 있을 때 보내지 못한 요청을
// 브라우저 저장소에 쌓아 둔다. 앱을 껐다 켜도 사라지지 않는다.
export class OfflineQueue {
  constructor(private store: Storage, private slot = "pending") {}

  list(): Pending[] {
    return JSON.parse(this.store.getItem(this.slot) ?? "[]");
  }

  push(item: Pending): void {
    // 같은 요청을 두 번 누른 경우에는 하나만 남긴다
    const rest = this.list().filter((p) => p.id !== item.id);
    this.store.setItem(this.slot, JSON.stringify([...rest, item]));
  }
}

// 연결이 되살아나면 밀린 요청을 들어온 순서대로 흘려보낸다. 하나라도 실패하면 뒤의 것은
// 건드리지 않고 멈춘다. 입고보다 출고가 먼저 도착하면 재고가 어긋나기 때문이다.
export async function drainQueue(items: Pending[], send: (p: Pending) => Promise<boolean>): Promise<Pending[]> {
  const rest = [...items];
  while (rest.length > 0) {
    const ok = await send(rest[0]).catch(() => false);
    if (!ok) {
      rest[0] = { ...rest[0], tries: rest[0].tries + 1 };
      break;
    }
    rest.shift();
  }
  return rest;
}
