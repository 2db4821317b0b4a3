import re
import secrets
from datetime import datetime, timedelta

CONFIRM_TTL = timedelta(hours=48)


def normalize_phone(raw):
    """Приводит номер телефона к виду +7XXXXXXXXXX.

    Гости пишут его как попало: с восьмёркой, скобками, пробелами. Без единого вида мы
    заводили на одного человека по две учётные записи.
    """
    digits = re.sub(r"\D", "", raw)
    if len(digits) == 11 and digits[0] == "8":
        digits = "7" + digits[1:]
    if len(digits) == 10:
        digits = "7" + digits
    if len(digits) != 11:
        raise ValueError("bad phone: %r" % raw)
    return "+" + digits


# Выписывает одноразовый код для подтверждения почты. Старые коды того же гостя гасим,
# чтобы сработала только ссылка из последнего письма.
def issue_confirmation(db, guest_id):
    db.execute("UPDATE confirm SET used = 1 WHERE guest_id = ?", (guest_id,))
    code = secrets.token_urlsafe(16)
    db.execute(
        "INSERT INTO confirm(guest_id, code, expires) VALUES (?, ?, ?)",
        (guest_id, code, datetime.utcnow() + CONFIRM_TTL),
    )
    return code


def merge_guests(db, keep_id, drop_id):
    """Сливает два профиля одного гостя: абонементы и чеки переезжают на оставшийся, лишний удаляется."""
    for table in ("ski_pass", "receipt"):
        db.execute("UPDATE %s SET guest_id = ? WHERE guest_id = ?" % table, (keep_id, drop_id))
    # Баллы складываем, а не берём максимум: так решила бухгалтерия.
    extra = db.execute("SELECT bonus FROM guest WHERE id = ?", (drop_id,)).fetchone()[0]
    db.execute("UPDATE guest SET bonus = bonus + ? WHERE id = ?", (extra, keep_id))
    db.execute("DELETE FROM guest WHERE id = ?", (drop_id,))
