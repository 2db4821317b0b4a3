from collections import deque

STOP_GUST = 18.0
RESUME_GUST = 13.0


class WindGuard:
    """Следит за порывами ветра на опорах и решает, можно ли канатке работать.

    Пороги остановки и пуска разнесены: с одним порогом кресла дёргались туда-сюда каждые две минуты.
    """

    def __init__(self, minutes=10):
        self.gusts = deque(maxlen=minutes)
        self.stopped = False

    def feed(self, gust):
        self.gusts.append(gust)
        if gust >= STOP_GUST:
            self.stopped = True
        elif self.stopped and len(self.gusts) == self.gusts.maxlen and max(self.gusts) < RESUME_GUST:
            self.stopped = False
        return not self.stopped


# Отбрасывает показания обледеневшего анемометра: если прибор выдаёт строго одно и то же число
# подряд слишком долго, вертушка примёрзла и верить ей нельзя.
def drop_frozen(samples, limit=20):
    result, run, previous = [], 0, None
    for value in samples:
        run = run + 1 if value == previous else 1
        previous = value
        if run < limit:
            result.append(value)
    return result


def safe_speed(gust, nominal):
    """Плавно снижает скорость движения кресел при усилении ветра, не доводя сразу до полной остановки."""
    if gust <= 8:
        return nominal
    return max(nominal * 0.4, nominal * (1 - (gust - 8) / (STOP_GUST - 8)))
