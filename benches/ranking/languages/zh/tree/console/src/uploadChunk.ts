/** 上传进度，记录已经送达服务器的分块编号。 */
export interface UploadState {
  fileId: string;
  done: Set<number>;
}

const CHUNK = 512 * 1024;

/** 将大文件按固定大小切块，返回尚未上传的那些块，刷新页面后可以断点续传。 */
export function pendingChunks(file: Blob, state: UploadState): Array<[number, Blob]> {
  const out: Array<[number, Blob]> = [];
  for (let i = 0; i * CHUNK < file.size; i++) {
    if (!state.done.has(i)) out.push([i, file.slice(i * CHUNK, (i + 1) * CHUNK)]);
  }
  return out;
}

/**
 * 逐块上传宣传视频，某一块失败时单独重试三次。
 * 用户点了取消就马上中止，不再发后面的块。
 */
export async function uploadAll(file: Blob, state: UploadState, signal: AbortSignal): Promise<void> {
  for (const [i, body] of pendingChunks(file, state)) {
    for (let attempt = 0; ; attempt++) {
      signal.throwIfAborted();
      const res = await fetch(`/media/${state.fileId}/${i}`, { method: "PUT", body, signal });
      if (res.ok) break;
      if (attempt >= 3) throw new Error(`chunk ${i}: ${res.status}`);
    }
    state.done.add(i);
  }
}
