"""公開用の画像に入れる透かし。"""
import hashlib


def invisible_mark(pixels, user):
    """閲覧者の番号を、目に見えない透かしとして画素の最下位ビットに埋め込む。

    画像が無断で転載されたとき、流出元を突き止めるのに使う。
    """
    bits = hashlib.sha256(user.encode()).digest()
    out = list(pixels)
    for i in range(min(len(out), len(bits) * 8)):
        bit = bits[i // 8] >> (i % 8) & 1
        out[i] = out[i] & ~1 | bit
    return out


def visible_label(width, height, text):
    """所蔵館名を右下に重ねるための位置と文字の大きさを決める。

    本文を隠さないように、短い辺の二パーセント以内に抑える。
    """
    size = max(8, int(min(width, height) * 0.02))
    return width - size * len(text) - size, height - size * 2, size
