import csv
import io


def detect_encoding(head):
    """Угадывает кодировку присланной выгрузки: отели до сих пор шлют файлы из Excel в cp1251.

    Если байты складываются в корректный UTF-8, верим ему, иначе считаем, что это однобайтовая.
    """
    if head.startswith(b"\xef\xbb\xbf"):
        return "utf-8-sig"
    try:
        head.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        return "cp1251"


# Читает список проживающих из файла партнёра и отдаёт строки словарями. Битые строки не роняют
# импорт, а копятся в errors с номером, чтобы отель мог их исправить.
def read_guests(data, errors):
    text = data.decode(detect_encoding(data))
    delimiter = ";" if text.split("\n", 1)[0].count(";") else ","
    for number, row in enumerate(csv.DictReader(io.StringIO(text), delimiter=delimiter), start=2):
        if not row.get("surname") or not row.get("checkin"):
            errors.append((number, "нет фамилии или даты заезда"))
            continue
        yield row


def split_by_known(rows, known):
    """Отделяет новых постояльцев от уже заведённых, сравнивая фамилию без регистра и дату рождения."""
    fresh, seen = [], []
    for row in rows:
        key = (row["surname"].strip().casefold(), row.get("birth"))
        (seen if key in known else fresh).append(row)
    return fresh, seen
