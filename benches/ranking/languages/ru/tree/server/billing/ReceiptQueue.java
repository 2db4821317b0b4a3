package ru.gornolyzhka.billing;

import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;

/** Очередь чеков на отправку в налоговую: фискальный оператор бывает недоступен часами. */
public final class ReceiptQueue {
    private final DelayQueue<Job> jobs = new DelayQueue<>();

    /** Ставит чек в очередь. Каждая неудача отодвигает следующую отправку вдвое дальше, но не более чем на час. */
    public void enqueue(String receipt, int failures) {
        long minutes = Math.min(60, 1L << Math.min(failures, 6));
        jobs.add(new Job(receipt, failures, System.nanoTime() + TimeUnit.MINUTES.toNanos(failures == 0 ? 0 : minutes)));
    }

    /** Разбирает созревшие задания; вызывается фоновым потоком раз в несколько секунд. */
    public void drain(Sender sender) {
        for (Job job = jobs.poll(); job != null; job = jobs.poll()) {
            if (!sender.send(job.receipt())) {
                enqueue(job.receipt(), job.failures() + 1);
            }
        }
    }

    interface Sender {
        boolean send(String receipt);
    }

    record Job(String receipt, int failures, long due) implements Delayed {
        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(getDelay(TimeUnit.NANOSECONDS), other.getDelay(TimeUnit.NANOSECONDS));
        }
    }
}
