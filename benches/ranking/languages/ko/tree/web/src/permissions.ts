export type Perm = "open" | "refund" | "report" | "staff";
export interface MenuItem { label: string; need?: Perm; children?: MenuItem[] }

// 로그인한 직원이 쓸 수 없는 메뉴를 화면에서 감춘다. 하위 메뉴가 모두 사라진 묶음은
// 눌러도 아무것도 나오지 않으므로 함께 뺀다.
export function pruneMenu(items: MenuItem[], have: Set<Perm>): MenuItem[] {
  const kept: MenuItem[] = [];
  for (const item of items) {
    if (item.need && !have.has(item.need)) continue;
    if (!item.children) {
      kept.push(item);
      continue;
    }
    const children = pruneMenu(item.children, have);
    if (children.length > 0) kept.push({ ...item, children });
  }
  return kept;
}

// 주소창에 경로를 직접 쳐서 들어오는 경우를 막는 문지기. 권한이 없으면 안내 화면으로 돌려보낸다.
// 화면에서 막는 것은 편의일 뿐이고 진짜 검사는 서버가 한다.
export function guardRoute(path: string, need: Perm | undefined, have: Set<Perm>): string {
  return !need || have.has(need) ? path : `/denied?from=${encodeURIComponent(path)}`;
}

// 토큰 안에 실려 온 권한 목록을 꺼낸다. 모르는 이름은 조용히 버린다.
export function permsFromToken(token: string): Set<Perm> {
  const known: Perm[] = ["open", "refund", "report", "staff"];
  const payload = JSON.parse(atob(token.split(".")[1]));
  return new Set(known.filter((p) => (payload.perms ?? []).includes(p)));
}
