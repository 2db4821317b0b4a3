from dataclasses import dataclass
from datetime import datetime, time, timedelta


@dataclass
class Window:
    """Промежуток, в который подъёмник возит людей; вечернее катание описываем отдельным окном."""

    opens: time
    closes: time

    def covers(self, moment):
        return self.opens <= moment.time() < self.closes


def last_boarding(window, ride_minutes, day):
    """Время последней посадки снизу: кто сел, тот должен успеть доехать до верха до остановки каната."""
    closes = datetime.combine(day, window.closes)
    return closes - timedelta(minutes=ride_minutes + 5)


# Сдвигает открытие по сезонам: в декабре светает поздно, и раньше рассвета пускать лыжников
# на трассы запрещает служба спасения.
def shift_to_daylight(window, sunrise):
    opens = max(window.opens, sunrise)
    return Window(opens, window.closes)


def next_opening(windows, now):
    """Ищет ближайшее открытие после указанного момента, перебирая расписание на неделю вперёд.

    Возвращает None, если подъёмник закрыт на межсезонье.
    """
    for shift in range(8):
        day = (now + timedelta(days=shift)).date()
        for window in sorted(windows.get(day.weekday(), ()), key=lambda w: w.opens):
            start = datetime.combine(day, window.opens)
            if start > now:
                return start
    return None
