import hashlib
import struct
import subprocess

MAGIC = b"TRNS"
FLASH_LIMIT = 448 * 1024


def version_from_git():
    """Берёт номер сборки из последней метки git; у незакоммиченных правок дописывает -dirty."""
    out = subprocess.run(["git", "describe", "--tags", "--dirty"], capture_output=True, text=True, check=True)
    return out.stdout.strip().lstrip("v")


# Собирает образ прошивки турникета: заголовок, версия, длина, отпечаток и само тело.
# Загрузчик сверяет отпечаток и откатывается на прежний образ, если тот не сошёлся.
def build_image(body, version):
    if len(body) > FLASH_LIMIT:
        raise SystemExit("прошивка не влезает во флеш: %d байт" % len(body))
    digest = hashlib.sha256(body).digest()
    return MAGIC + struct.pack(">16sI", version.encode()[:16], len(body)) + digest + body


def pad_to_sector(image, sector=4096):
    """Дополняет образ до целого числа секторов байтами 0xFF: в таком виде флеш-память и так стёрта."""
    rest = -len(image) % sector
    return image + b"\xff" * rest
