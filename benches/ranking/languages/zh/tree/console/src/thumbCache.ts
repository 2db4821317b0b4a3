/** 缩略图的内存缓存，容量有限，采用 LRU 淘汰。 */
export class ThumbCache {
  private readonly items = new Map<string, ImageBitmap>();

  constructor(private readonly limit: number) {}

  /** 取出缩略图，同时把它挪到队尾，表示刚刚被用过。 */
  get(key: string): ImageBitmap | undefined {
    const hit = this.items.get(key);
    if (hit) {
      this.items.delete(key);
      this.items.set(key, hit);
    }
    return hit;
  }

  /** 放入一张缩略图，装满时淘汰最久没人看的那张，并主动释放它占用的显存。 */
  put(key: string, bitmap: ImageBitmap): void {
    this.items.set(key, bitmap);
    if (this.items.size > this.limit) {
      const [oldest, old] = this.items.entries().next().value as [string, ImageBitmap];
      this.items.delete(oldest);
      old.close();
    }
  }
}
