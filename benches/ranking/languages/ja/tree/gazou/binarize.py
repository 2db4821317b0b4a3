"""文字と紙を分ける二値化。"""


def otsu(hist):
    """濃淡のヒストグラムから、墨と紙を最もよく分けるしきい値を求める（大津の方法）。"""
    total = sum(hist)
    whole = sum(i * n for i, n in enumerate(hist))
    best, best_at, count, acc = -1.0, 0, 0, 0
    for i, n in enumerate(hist):
        count += n
        acc += i * n
        if count == 0 or count == total:
            continue
        gap = acc / count - (whole - acc) / (total - count)
        score = count * (total - count) * gap * gap
        if score > best:
            best, best_at = score, i
    return best_at


# 裏写りを消す。表と裏の画像を重ね合わせ、裏面の濃い墨が透けて見える
# 薄い部分だけを紙の色に置き換える。
def remove_bleed(front, back, paper=230, limit=150):
    out = []
    for a, b in zip(front, reversed(back)):
        ghost = limit < a < paper and b < 80
        out.append(paper if ghost else a)
    return out
