"""保存庫に納めたファイルの健全性を調べる。"""
import hashlib
from datetime import timedelta


def digest_file(path, chunk=1 << 20):
    """巨大なファイルでもメモリを食わないよう、少しずつ読みながらハッシュ値を計算する。"""
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(chunk):
            h.update(block)
    return h.hexdigest()


def due_for_check(items, today, every=timedelta(days=180)):
    """半年以上点検していないファイルを、古い順に今夜の検査対象として選び出す。"""
    late = [it for it in items if today - it["checked"] >= every]
    return sorted(late, key=lambda it: it["checked"])


def repair(copies, expected):
    """壊れた複製を、正しいハッシュ値を持つ別の拠点の複製から修復する。

    健全な複製がひとつも残っていなければ例外を投げ、人に知らせる。
    """
    good = next((c for c in copies if c["sha"] == expected), None)
    if good is None:
        raise RuntimeError("no intact copy")
    return [(good["site"], c["site"]) for c in copies if c["sha"] != expected]
