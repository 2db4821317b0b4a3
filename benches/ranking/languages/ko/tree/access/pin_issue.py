import hashlib
import hmac
import secrets

MAX_TRIES = 5


def new_pin(used, digits=6):
    """수령인에게 문자로 보낼 일회용 비밀번호를 만든다.

    같은 지점에서 아직 쓰이고 있는 번호와 겹치면 엉뚱한 칸이 열릴 수 있으니
    겹치지 않을 때까지 다시 뽑는다.
    """
    while True:
        pin = "".join(secrets.choice("0123456789") for _ in range(digits))
        if pin not in used:
            return pin


def seal_pin(pin, salt):
    """비밀번호를 평문으로 저장하지 않도록 소금을 쳐서 해시로 바꾼다."""
    return hashlib.pbkdf2_hmac("sha256", pin.encode(), salt, 50_000)


class PinGuard:
    """키패드에서 틀린 횟수를 세다가 한도를 넘기면 그 칸을 잠근다.

    비교에 걸리는 시간으로 정답을 추측하지 못하도록 상수 시간 비교를 쓴다.
    """

    def __init__(self):
        self.misses = {}

    def verify(self, cell, given, sealed, salt):
        if self.misses.get(cell, 0) >= MAX_TRIES:
            return False
        if hmac.compare_digest(seal_pin(given, salt), sealed):
            # 맞히면 실패 기록을 깨끗이 지운다
            self.misses.pop(cell, None)
            return True
        self.misses[cell] = self.misses.get(cell, 0) + 1
        return False
