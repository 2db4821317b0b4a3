package ru.gornolyzhka.access;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Вычисляет, что сотруднику разрешено, исходя из его должностей. */
public final class RoleResolver {
    private final Map<String, Set<String>> parents;
    private final Map<String, EnumSet<Permission>> own;

    public RoleResolver(Map<String, Set<String>> parents, Map<String, EnumSet<Permission>> own) {
        this.parents = parents;
        this.own = own;
    }

    /**
     * Собирает права по всей цепочке наследования ролей. Обход идёт с отметкой посещённых,
     * потому что администраторы умудряются зациклить роли друг на друга.
     */
    public EnumSet<Permission> effective(String role) {
        EnumSet<Permission> result = EnumSet.noneOf(Permission.class);
        Set<String> seen = new HashSet<>();
        Deque<String> queue = new ArrayDeque<>();
        queue.add(role);
        while (!queue.isEmpty()) {
            String current = queue.poll();
            if (!seen.add(current)) continue;
            result.addAll(own.getOrDefault(current, EnumSet.noneOf(Permission.class)));
            queue.addAll(parents.getOrDefault(current, Set.of()));
        }
        return result;
    }

    /** Запрещает кассиру оформлять возврат по чеку, который он сам же и пробил: правило двух рук. */
    public boolean mayRefund(String role, long cashierId, long receiptAuthorId) {
        return cashierId != receiptAuthorId && effective(role).contains(Permission.REFUND);
    }

    enum Permission { SELL, REFUND, OPEN_GATE, EDIT_PRICES }
}
