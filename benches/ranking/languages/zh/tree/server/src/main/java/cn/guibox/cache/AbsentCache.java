package cn.guibox.cache;

import java.util.BitSet;

/** 用布隆过滤器记录存在的运单号，查不到的号码不必再访问数据库。 */
public final class AbsentCache {
    private final BitSet bits;
    private final int size;

    public AbsentCache(int size) {
        this.size = size;
        this.bits = new BitSet(size);
    }

    /** 把一个有效的运单号登记进过滤器。 */
    public void add(String waybill) {
        bits.set(slot(waybill, 17));
        bits.set(slot(waybill, 31));
    }

    /**
     * 运单号肯定不存在时返回真，用来挡住恶意刷接口的请求穿透缓存。
     * 过滤器有误判，返回假并不代表一定存在。
     */
    public boolean surelyAbsent(String waybill) {
        return !bits.get(slot(waybill, 17)) || !bits.get(slot(waybill, 31));
    }

    /** 由运单号和种子算出位图里的位置。 */
    private int slot(String s, int seed) {
        return Math.floorMod(s.hashCode() * seed, size);
    }
}
