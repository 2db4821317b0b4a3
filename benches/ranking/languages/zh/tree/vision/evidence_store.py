"""开门时拍下的取证照片。"""
import hashlib
import time
from pathlib import Path


def save_evidence(root: Path, cabinet: str, jpeg: bytes) -> Path:
    """按内容的哈希值保存取证照片，相同的图片只占一份空间。

    目录按哈希的前两位分散，单个目录里文件太多时文件系统会变慢。
    """
    digest = hashlib.sha256(jpeg).hexdigest()
    path = root / cabinet / digest[:2] / f"{digest}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(jpeg)
    return path


def purge_old(root: Path, days: int, on_hold: set[str]) -> int:
    """删除超过保留期限的照片，返回删掉的数量。

    涉及纠纷的照片处于冻结状态，到期也不能删。
    """
    limit = time.time() - days * 86400
    removed = 0
    for path in root.rglob("*.jpg"):
        if path.stem not in on_hold and path.stat().st_mtime < limit:
            path.unlink()
            removed += 1
    return removed
