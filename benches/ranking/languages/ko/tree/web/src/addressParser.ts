export interface Juso { sido: string; sigungu: string; road: string; building: string; detail: string }

const ROAD = /^(\S+?[시도])\s+(?:(\S+?[시군구])\s+)?(\S+?[로길])\s+(\d+(?:-\d+)?)\s*,?\s*(.*)$/;

// 고객이 한 줄로 적은 도로명 주소를 시도, 시군구, 길 이름, 건물 번호, 상세 주소로 쪼갠다.
// 형식에 맞지 않으면 null을 돌려주고 사람이 직접 고치게 한다.
export function parseJuso(line: string): Juso | null {
  const m = ROAD.exec(expandSido(line.trim()));
  if (!m) return null;
  return { sido: m[1], sigungu: m[2] ?? "", road: m[3], building: m[4], detail: m[5] };
}

// 서울, 경기처럼 줄여 쓴 광역 지명을 정식 명칭으로 늘린다.
export function expandSido(line: string): string {
  const full: Record<string, string> = { 서울: "서울특별시", 부산: "부산광역시", 경기: "경기도", 제주: "제주도" };
  const [head, ...tail] = line.split(/\s+/);
  return [full[head] ?? head, ...tail].join(" ");
}

// 상세 주소에서 몇 동 몇 호인지를 읽어 낸다. 아파트 단지 안의 보관함은 동마다 따로 있어서
// 어느 보관함에 넣을지 정하려면 동 번호가 꼭 필요하다.
export function dongHo(detail: string): { dong: number; ho: number } | null {
  const m = /(\d+)\s*동\s*(\d+)\s*호/.exec(detail) ?? /(\d+)-(\d+)/.exec(detail);
  return m ? { dong: Number(m[1]), ho: Number(m[2]) } : null;
}
