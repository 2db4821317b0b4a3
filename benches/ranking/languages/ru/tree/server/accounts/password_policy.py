import hashlib
import hmac
import os

ROUNDS = 210_000


class WeakPassword(Exception):
    """Пароль не прошёл проверку на стойкость; текст ошибки показываем пользователю как есть."""


def check_strength(password, login):
    """Отбраковывает слишком простые пароли: короткие, из одних цифр или содержащие логин.

    Спецсимволов не требуем нарочно: из-за них люди клеили бумажки с паролями на мониторы касс.
    """
    if len(password) < 10:
        raise WeakPassword("минимум 10 символов")
    if password.isdigit():
        raise WeakPassword("одних цифр недостаточно")
    if login.lower() in password.lower():
        raise WeakPassword("пароль не должен содержать логин")


# Считает солёный хеш для хранения в базе. Число раундов пишем рядом с солью,
# чтобы потом можно было его поднять, не ломая старые записи.
def make_hash(password):
    salt = os.urandom(16)
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    return "%d$%s$%s" % (ROUNDS, salt.hex(), digest.hex())


# Сверяет введённый пароль с сохранённым хешем за постоянное время и заодно сообщает,
# не пора ли хеш пересчитать с большим числом раундов.
def verify(password, stored):
    rounds, salt, digest = stored.split("$")
    actual = hashlib.pbkdf2_hmac("sha256", password.encode(), bytes.fromhex(salt), int(rounds))
    ok = hmac.compare_digest(actual.hex(), digest)
    return ok, ok and int(rounds) < ROUNDS
