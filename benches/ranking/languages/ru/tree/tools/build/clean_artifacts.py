import shutil
import time
from pathlib import Path

KEEP_DAYS = 14


def is_protected(build_dir):
    """Сборки, которые сейчас стоят у заказчиков, помечены файлом .pinned, и удалять их нельзя никогда."""
    return (build_dir / ".pinned").exists()


# Сносит сборки старше двух недель, но последние три оставляет при любом возрасте:
# после долгих праздников чистильщик однажды стёр вообще всё.
def clean_builds(root, now=None):
    now = now or time.time()
    builds = sorted((p for p in Path(root).iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    removed = []
    for build in builds[:-3]:
        age_days = (now - build.stat().st_mtime) / 86400
        if age_days > KEEP_DAYS and not is_protected(build):
            shutil.rmtree(build)
            removed.append(build.name)
    return removed


def report_disk(root, minimum_gb=5):
    """Предупреждает, если на сборочной машине кончается диск: линковщик при нехватке места падает невнятно."""
    free_gb = shutil.disk_usage(root).free / 1e9
    if free_gb < minimum_gb:
        print("осталось %.1f ГБ, сборка может не пройти" % free_gb)
    return free_gb >= minimum_gb
