package jp.kura.tsuchi;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedDeque;

/** 送信待ちのお知らせメール。 */
record Tegami(String to, String body, int failed) {}

/** お知らせメールの送信待ち行列。 */
public final class MailQueue {
    private final ConcurrentLinkedDeque<Tegami> waiting = new ConcurrentLinkedDeque<>();
    private final ConcurrentLinkedDeque<Tegami> dead = new ConcurrentLinkedDeque<>();

    /**
     * 配送に失敗したメールを行列に戻し、次に送るまでの待ち時間を返す。
     * 六回失敗したものは宛先不明の箱に移し、係員の確認に委ねる。
     */
    public Optional<Duration> requeue(Tegami t) {
        Tegami next = new Tegami(t.to(), t.body(), t.failed() + 1);
        if (next.failed() >= 6) {
            dead.add(next);
            return Optional.empty();
        }
        waiting.addLast(next);
        return Optional.of(Duration.ofMinutes(5L * next.failed()));
    }

    /** 同じ宛先へのお知らせが複数溜まっていたら、一通にまとめて本文をつなげる。 */
    public Optional<Tegami> merged(String to) {
        return waiting.stream()
            .filter(t -> t.to().equals(to))
            .reduce((a, b) -> new Tegami(to, a.body() + "\n\n" + b.body(), 0));
    }
}
