// Файл, который ещё не уехал целиком.
type Task = { file: Blob; url: string; sent: number };

const CHUNK = 256 * 1024;

/**
 * Очередь выгрузки фотографий со склона. Наверху связь еле дышит, поэтому шлём кусками
 * и после разрыва продолжаем с места обрыва, а не с начала.
 */
export class UploadQueue {
  private tasks: Task[] = [];
  private busy = false;

  add(file: Blob, url: string): void {
    this.tasks.push({ file, url, sent: 0 });
    void this.run();
  }

  /** Ждёт появления сети и перезапускает передачу: таймеры в фоновой вкладке браузер придерживает. */
  listen(target: EventTarget = window): void {
    target.addEventListener("online", () => void this.run());
  }

  private async run(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      for (; this.tasks.length > 0; this.tasks.shift()) await sendRest(this.tasks[0]);
    } catch {
      // Сеть пропала, задача остаётся первой в очереди.
    } finally {
      this.busy = false;
    }
  }
}

// Досылает оставшуюся часть файла. Смещение спрашиваем у сервера: наш счётчик мог соврать.
async function sendRest(task: Task): Promise<void> {
  const head = await fetch(task.url, { method: "HEAD" });
  task.sent = Number(head.headers.get("Upload-Offset") ?? 0);
  for (; task.sent < task.file.size; task.sent += CHUNK) {
    const headers = { "Upload-Offset": String(task.sent) };
    await fetch(task.url, { method: "PATCH", headers, body: task.file.slice(task.sent, task.sent + CHUNK) });
  }
}
