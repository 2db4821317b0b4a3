"""複数の文字認識エンジンの結果を突き合わせる。"""
from collections import Counter


def vote(candidates):
    """同じ位置の文字を各エンジンの多数決で決める。票が割れたら確信度の合計で勝敗をつける。"""
    votes = Counter(ch for ch, _ in candidates)
    weight = Counter()
    for ch, conf in candidates:
        weight[ch] += conf
    return max(votes, key=lambda ch: (votes[ch], weight[ch]))


def needs_human(chars, floor=0.6):
    """確信度の低い文字が一割を超えた頁は、人間の校正に回す。"""
    low = sum(1 for _, conf in chars if conf < floor)
    return low > len(chars) * 0.1


def strip_furigana(boxes):
    """本文の脇に付いた小さな振り仮名を取り除く。幅が本文の半分に満たない文字が対象。"""
    if not boxes:
        return []
    body = sorted(b["w"] for b in boxes)[len(boxes) // 2]
    return [b for b in boxes if b["w"] >= body * 0.5]
