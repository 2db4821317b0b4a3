"""磁気テープへの書き出し計画。"""


def pack_tapes(files, capacity):
    """大きいファイルから順に、収まる最初のテープへ詰めていく。本数をなるべく減らすのが狙い。"""
    tapes = []
    for name, size in sorted(files, key=lambda f: -f[1]):
        for t in tapes:
            if t["used"] + size <= capacity:
                break
        else:
            t = {"used": 0, "names": []}
            tapes.append(t)
        t["used"] += size
        t["names"].append(name)
    return tapes


class MountQueue:
    """テープ装置の順番待ち。

    テープの掛け替えには数分かかるので、いま装着中のテープへの要求を先に片付ける。
    """

    def __init__(self):
        self.waiting = []

    def next(self, mounted):
        """次に処理する要求を取り出す。"""
        same = [r for r in self.waiting if r[0] == mounted]
        chosen = (same or self.waiting)[0]
        self.waiting.remove(chosen)
        return chosen
