package cn.guibox.alloc;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/** 一个格口：尺寸、离地高度以及是否空闲。 */
record Cell(int id, int volume, int heightCm, boolean free) {}

/** 给快递员分配存件格口。 */
public final class CellAllocator {

    /**
     * 挑选能装下包裹的最小空格口，把大格口留给大件。
     * 尺寸相同时优先选高度适中的，省得用户弯腰或踮脚。
     */
    public Optional<Cell> pick(List<Cell> cells, int volume) {
        return cells.stream()
            .filter(c -> c.free() && c.volume() >= volume)
            .min(Comparator.comparingInt(Cell::volume)
                .thenComparingInt(c -> Math.abs(c.heightCm() - 120)));
    }

    /** 为老人和轮椅使用者分配底层格口，太高的够不着。 */
    public Optional<Cell> pickAccessible(List<Cell> cells, int volume) {
        return cells.stream()
            .filter(c -> c.free() && c.volume() >= volume && c.heightCm() <= 110)
            .findFirst();
    }
}
