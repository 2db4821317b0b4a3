"""撮影した頁の傾きと歪みを直す。"""
import math


def estimate_skew(lines):
    """行の並びから頁の傾き（度）を推定する。

    虫食いの跡を行と誤認することがあるので、平均ではなく中央値を採用する。
    """
    angles = sorted(math.degrees(math.atan2(y2 - y1, x2 - x1)) for x1, y1, x2, y2 in lines)
    return angles[len(angles) // 2] if angles else 0.0


def gutter_shadow(columns):
    """見開きの中央にできる綴じ目の影の位置を探す。

    左右の端は机の縁が暗く写るため、中央の三割だけを調べる。
    """
    n = len(columns)
    lo, hi = int(n * 0.35), int(n * 0.65)
    return min(range(lo, hi), key=lambda x: columns[x])


def split_spread(width, gutter, overlap=12):
    """見開きの画像を左右の頁に切り分ける。綴じ目付近は両方に少し重複させる。"""
    return (0, min(width, gutter + overlap)), (max(0, gutter - overlap), width)
