"""多台服务器之间的定时任务协调。"""
import time


class JobLease:
    """任务租约：同一时刻只允许一台服务器执行某个定时任务。

    租约到期后别的机器可以接手，所以即使持有者宕机任务也不会卡死。
    """

    def __init__(self, store, name, ttl):
        self.store, self.name, self.ttl = store, name, ttl

    def acquire(self, owner):
        """尝试抢占租约，抢到返回真。"""
        now = time.time()
        holder = self.store.get(self.name)
        if holder and holder[1] > now and holder[0] != owner:
            return False
        self.store[self.name] = (owner, now + self.ttl)
        return True


def next_run(minute_of_day, now_minute):
    """计算每日任务距离下一次执行还有多少分钟，今天的时间已过就顺延到明天。"""
    wait = minute_of_day - now_minute
    return wait if wait > 0 else wait + 24 * 60


def spread(cabinet_id, window):
    """把各柜子的夜间自检错峰安排在一个时间窗口里，同一台柜子每晚的时刻固定不变。"""
    return sum(cabinet_id.encode()) * 7919 % window
