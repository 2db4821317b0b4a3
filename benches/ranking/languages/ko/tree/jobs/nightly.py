import random
import time


class JobBoard:
    """밤마다 돌릴 작업을 등록해 두는 게시판. 선행 작업이 끝나야 다음 작업을 내준다."""

    def __init__(self):
        self.needs = {}
        self.done = set()

    def add(self, name, after=()):
        self.needs[name] = set(after)

    def ready(self):
        return sorted(n for n, deps in self.needs.items() if n not in self.done and deps <= self.done)


def spread_start(base, branches, window=1800):
    """지점마다 시작 시각을 조금씩 흩뜨린다.

    모든 보관함이 자정에 한꺼번에 서버로 몰려오면 데이터베이스가 버티지 못한다.
    지점 번호로 난수를 고정해 두어서 매일 같은 시각에 돈다.
    """
    return {b: base + random.Random(b).randrange(window) for b in branches}


def run_with_deadline(steps, seconds, clock=time.monotonic):
    """제한 시간이 끝나기 전까지만 단계를 차례로 실행하고, 못다 한 단계는 다음 날로 넘긴다."""
    end = clock() + seconds
    leftovers = list(steps)
    while leftovers and clock() < end:
        # 도중에 예외가 나도 남은 단계는 목록에 그대로 있다
        leftovers[0]()
        leftovers.pop(0)
    return leftovers
