"""从摄像头画面里定位面单。"""
from dataclasses import dataclass


@dataclass
class Box:
    """图像中的矩形区域，坐标以像素为单位。"""

    x: int
    y: int
    w: int
    h: int


def largest_bright_box(gray, threshold=180):
    """找出画面中最亮的矩形，通常就是贴在纸箱上的白色面单。

    纸箱是棕色的，简单的亮度阈值就够用，不必上神经网络。
    """
    rows = [y for y, line in enumerate(gray) if max(line) >= threshold]
    cols = [x for x in range(len(gray[0])) if any(line[x] >= threshold for line in gray)]
    if not rows or not cols:
        return None
    return Box(cols[0], rows[0], cols[-1] - cols[0] + 1, rows[-1] - rows[0] + 1)


def expand(box, margin, width, height):
    """把裁剪框向四周扩大一圈，避免切掉条码的静区，但不超出图像边界。"""
    x = max(0, box.x - margin)
    y = max(0, box.y - margin)
    right = min(width, box.x + box.w + margin)
    bottom = min(height, box.y + box.h + margin)
    return Box(x, y, right - x, bottom - y)
