export interface Pin { id: string; lat: number; lng: number; free: number }
export interface Cluster { lat: number; lng: number; pins: Pin[] }

// 지도를 축소했을 때 마커가 다닥다닥 붙지 않게 가까운 보관함끼리 한 덩어리로 뭉친다.
// 격자 한 칸에 들어온 것들을 묶는 단순한 방식이라 수천 개라도 금방 끝난다.
export function clusterPins(pins: Pin[], cellDeg: number): Cluster[] {
  const grid = new Map<string, Pin[]>();
  for (const pin of pins) {
    const key = `${Math.floor(pin.lat / cellDeg)}:${Math.floor(pin.lng / cellDeg)}`;
    grid.set(key, [...(grid.get(key) ?? []), pin]);
  }
  return [...grid.values()].map((group) => ({
    lat: group.reduce((sum, p) => sum + p.lat, 0) / group.length,
    lng: group.reduce((sum, p) => sum + p.lng, 0) / group.length,
    pins: group,
  }));
}

// 빈칸이 얼마나 남았는지에 따라 마커 색을 고른다. 색을 구별하기 힘든 사용자를 위해
// 빨강과 초록 대신 파랑과 주황을 쓴다.
export function pinColor(pin: Pin): string {
  if (pin.free === 0) return "#9e9e9e";
  return pin.free < 3 ? "#ef8a17" : "#1769aa";
}

// 두 지점 사이의 거리를 미터로 어림한다. 시내 범위에서는 지구가 둥근 것을 무시해도 된다.
export function roughMeters(a: Pin, b: Pin): number {
  const dy = (a.lat - b.lat) * 111_320;
  const dx = (a.lng - b.lng) * 111_320 * Math.cos((a.lat * Math.PI) / 180);
  return Math.hypot(dx, dy);
}
