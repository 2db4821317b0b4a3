package ru.gornolyzhka.access;

import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Временные допуски: сменщику на пару часов выдают чужие полномочия, дальше они отпадают сами. */
public final class TempGrant {
    private static final Duration MAX = Duration.ofHours(12);
    private final List<Entry> entries = new CopyOnWriteArrayList<>();
    private final Clock clock;

    public TempGrant(Clock clock) {
        this.clock = clock;
    }

    /** Выдаёт допуск на заданный срок, но не дольше одной смены: бессрочные «временные» права мы уже проходили. */
    public Entry give(long employee, String permission, Duration term, String reason) {
        Duration limited = term.compareTo(MAX) > 0 ? MAX : term;
        Entry entry = new Entry(employee, permission, clock.instant().plus(limited), reason);
        entries.add(entry);
        return entry;
    }

    /** Проверяет, есть ли у работника ещё не истёкший допуск; просроченные попутно выметает из списка. */
    public boolean has(long employee, String permission) {
        Instant now = clock.instant();
        entries.removeIf(e -> e.until().isBefore(now));
        return entries.stream().anyMatch(e -> e.employee() == employee && e.permission().equals(permission));
    }

    /** Досрочно отзывает всё, что было выдано человеку, например при увольнении. */
    public int revokeAll(long employee) {
        int before = entries.size();
        entries.removeIf(e -> e.employee() == employee);
        return before - entries.size();
    }

    record Entry(long employee, String permission, Instant until, String reason) {}
}
