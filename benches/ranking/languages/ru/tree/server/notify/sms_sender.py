import time
from datetime import time as clock

PAUSES = (2, 10, 45)


class SmsError(Exception):
    """Отказ провайдера. Поле permanent отличает неверный номер от временной перегрузки."""

    def __init__(self, text, permanent=False):
        super().__init__(text)
        self.permanent = permanent


def send_with_fallback(providers, phone, text):
    """Отправляет СМС, перебирая провайдеров по очереди.

    У каждого пробуем несколько раз с растущими паузами и лишь затем идём к запасному: он вчетверо
    дороже. Если номер не существует, сдаёмся сразу.
    """
    last = None
    for provider in providers:
        for pause in PAUSES:
            try:
                return provider.send(phone, text)
            except SmsError as err:
                if err.permanent:
                    raise
                last = err
                time.sleep(pause)
    raise last


# Ночью рекламу не рассылаем: закон запрещает беспокоить людей с десяти вечера до восьми утра
# по их местному времени. Аварийные сообщения сюда не попадают.
def is_quiet_hour(local):
    return local >= clock(22, 0) or local < clock(8, 0)


# Сколько частей займёт сообщение. Кириллица уходит в UCS-2, и влезает в неё всего 70 знаков.
def count_segments(text):
    single, multi = (160, 153) if text.isascii() else (70, 67)
    return 1 if len(text) <= single else -(-len(text) // multi)
