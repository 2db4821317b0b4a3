package cn.guibox.cache;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** 格口状态的本地缓存。 */
public final class CellStatusCache {
    private final ConcurrentHashMap<String, CompletableFuture<String>> map = new ConcurrentHashMap<>();

    /**
     * 读取格口状态，缓存里没有时去数据库查询。
     * 多个请求同时落空只放一个去查库，其余的等它的结果，防止缓存击穿压垮数据库。
     */
    public String get(String cell, Function<String, String> load) {
        CompletableFuture<String> mine = new CompletableFuture<>();
        CompletableFuture<String> other = map.putIfAbsent(cell, mine);
        if (other != null) {
            return other.join();
        }
        try {
            mine.complete(load.apply(cell));
        } catch (RuntimeException e) {
            // 查询失败不能留在缓存里
            map.remove(cell, mine);
            mine.completeExceptionally(e);
        }
        return mine.join();
    }

    /** 柜子上报开门或关门事件时，把对应的缓存条目作废。 */
    public void invalidate(String cell) {
        map.remove(cell);
    }
}
