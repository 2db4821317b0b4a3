import logging
import re

CARD = re.compile(r"\b(\d{4})\d{8,11}(\d{4})\b")
PHONE = re.compile(r"\+7\d{6}(\d{4})")


def mask_secrets(text):
    """Затирает в строке журнала номера карт и телефоны, оставляя по четыре цифры для поддержки.

    Персональные данные в логах нашёл аудитор, с тех пор фильтр обязателен.
    """
    text = CARD.sub(r"\1********\2", text)
    return PHONE.sub(r"+7******\1", text)


class MaskingFilter(logging.Filter):
    """Подключает маскировку ко всем обработчикам сразу, вместе с аргументами форматирования."""

    def filter(self, record):
        record.msg = mask_secrets(record.getMessage())
        record.args = ()
        return True


class RepeatFilter(logging.Filter):
    """Гасит одинаковые сообщения, сыплющиеся подряд, и пишет взамен, сколько раз они повторились.

    Без этого отвалившийся датчик забивал журнал гигабайтами за ночь.
    """

    def __init__(self):
        super().__init__()
        self.last, self.count = None, 0

    def filter(self, record):
        if record.getMessage() == self.last:
            self.count += 1
            return False
        if self.count:
            record.msg = "%s (предыдущее повторилось %d раз)" % (record.getMessage(), self.count)
            record.args = ()
        self.last, self.count = record.getMessage(), 0
        return True
