/**
 * 防抖：用户停止打字一段时间之后才真正发起搜索，
 * 减少给服务器造成的无谓请求。
 */
export function debounce<A extends unknown[]>(fn: (...args: A) => void, wait: number): (...args: A) => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (...args: A) => {
    if (timer !== undefined) clearTimeout(timer);
    timer = setTimeout(() => fn(...args), wait);
  };
}

/** 丢弃迟到的旧响应：如果后一次搜索已经返回，先前的结果就不再显示。 */
export class LatestOnly {
  private shown = 0;
  private issued = 0;

  /** 发起搜索前领一个递增的序号。 */
  ticket(): number {
    return ++this.issued;
  }

  /** 响应回来时凭序号判断还要不要采用。 */
  accept(ticket: number): boolean {
    if (ticket < this.shown) return false;
    this.shown = ticket;
    return true;
  }
}

/** 在结果文字里把命中的关键词高亮出来，先转义再插入标签，防止脚本注入。 */
export function highlight(text: string, word: string): string {
  const safe = (s: string) => s.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  return safe(text).split(safe(word)).join(`<mark>${safe(word)}</mark>`);
}
