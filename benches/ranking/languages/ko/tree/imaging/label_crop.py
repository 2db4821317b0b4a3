import math


# 기사가 비스듬히 찍은 송장 사진의 기울기를 잰다. 바코드 막대의 윤곽선 각도를 모아
# 중앙값을 쓰기 때문에 엉뚱하게 잡힌 선 몇 개는 결과를 흔들지 못한다.
def skew_angle(segments):
    angles = sorted(math.degrees(math.atan2(y2 - y1, x2 - x1)) for x1, y1, x2, y2 in segments)
    if not angles:
        return 0.0
    mid = len(angles) // 2
    return angles[mid] if len(angles) % 2 else (angles[mid - 1] + angles[mid]) / 2


# 사진에서 송장 스티커가 붙은 네모 영역만 오려 낸다. 흰 화소가 충분히 몰린 행과 열을 찾아
# 경계로 삼고, 글자가 잘리지 않게 가장자리에 여백을 조금 남긴다.
def crop_songjang(gray, level=200, margin=4):
    rows = [i for i, row in enumerate(gray) if sum(p > level for p in row) * 3 > len(row)]
    cols = [j for j in range(len(gray[0])) if sum(row[j] > level for row in gray) * 3 > len(gray)]
    if not rows or not cols:
        return None
    top, left = max(rows[0] - margin, 0), max(cols[0] - margin, 0)
    return [row[left:cols[-1] + margin] for row in gray[top:rows[-1] + margin]]


# 개인정보가 드러나지 않도록 전화번호와 이름이 찍힌 부분을 굵은 모자이크로 덮는다.
def pixelate(gray, box, size=8):
    top, left, bottom, right = box
    for y in range(top, bottom, size):
        for x in range(left, right, size):
            tone = gray[y][x]
            # 칸의 왼쪽 위 화소 하나로 칸 전체를 칠한다
            for yy in range(y, min(y + size, bottom)):
                gray[yy][x:min(x + size, right)] = [tone] * (min(x + size, right) - x)
    return gray
