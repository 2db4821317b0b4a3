// 찾아갈 기한까지 남은 시간을 사람이 읽기 좋은 말로 바꾼다. 하루가 넘게 남았으면 일과 시간만,
// 한 시간이 안 남았으면 분만 보여 준다.
export function remainText(deadline: number, now: number): string {
  const minutes = Math.max(0, Math.floor((deadline - now) / 60_000));
  const days = Math.floor(minutes / 1440);
  const hours = Math.floor((minutes % 1440) / 60);
  if (days > 0) return `${days}일 ${hours}시간`;
  if (hours > 0) return `${hours}시간 ${minutes % 60}분`;
  return `${minutes}분`;
}

// 휴대폰 시계가 틀어져 있어도 남은 시간이 맞게 나오도록 서버 시계와의 차이를 잰다.
// 왕복에 걸린 시간의 절반을 더해 통신 지연을 보정한다.
export async function clockSkew(ask: () => Promise<number>, local: () => number): Promise<number> {
  const sent = local();
  const server = await ask();
  const received = local();
  return server + (received - sent) / 2 - received;
}

// 일 초마다 화면을 고쳐 그리다가 탭이 가려지면 쉬어 배터리를 아낀다.
export function startTicker(draw: () => void): () => void {
  const timer = setInterval(() => {
    // 보이지 않는 탭에서 그려 봐야 소용없다
    if (!document.hidden) draw();
  }, 1000);
  return () => clearInterval(timer);
}
