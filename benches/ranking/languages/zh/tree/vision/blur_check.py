# 用拉普拉斯算子的方差衡量照片的清晰度，数值越低越模糊。
def sharpness(gray):
    total = squares = count = 0
    for y in range(1, len(gray) - 1):
        for x in range(1, len(gray[0]) - 1):
            v = 4 * gray[y][x] - gray[y - 1][x] - gray[y + 1][x] - gray[y][x - 1] - gray[y][x + 1]
            total += v
            squares += v * v
            count += 1
    if count == 0:
        return 0.0
    return squares / count - (total / count) ** 2


# 从连拍的几张照片中选出最清楚的一张用于识别，
# 如果都糊得厉害就返回空，提示快递员擦一擦镜头再重拍。
def pick_sharpest(frames, minimum=40.0):
    best = max(frames, key=sharpness, default=None)
    if best is None or sharpness(best) < minimum:
        return None
    return best


# 夜间补光：根据平均亮度估算需要的曝光倍数，过曝会让面单反光看不清，所以最多放大四倍。
def exposure_gain(gray, target=110):
    pixels = [p for line in gray for p in line]
    mean = sum(pixels) / len(pixels)
    return min(4.0, target / max(mean, 1.0))
