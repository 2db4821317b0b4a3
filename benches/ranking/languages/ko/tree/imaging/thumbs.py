import hashlib
from pathlib import Path

SIDES = (96, 240, 640)


# 축소판을 어디에 둘지 원본 내용의 해시로 정한다. 파일 이름이 바뀌어도 내용이 같으면
# 같은 자리를 가리키므로 두 번 만들 일이 없다.
def thumb_path(root, blob, side):
    digest = hashlib.sha1(blob).hexdigest()
    return Path(root) / digest[:2] / f"{digest}_{side}.webp"


# 가로세로 비율을 지키면서 정해진 정사각형 안에 들어갈 크기를 셈한다.
# 원본보다 크게 늘리지는 않는다. 늘리면 화질만 뭉개진다.
def fit_inside(width, height, side):
    scale = min(side / width, side / height, 1.0)
    return max(1, round(width * scale)), max(1, round(height * scale))


# 오랫동안 아무도 보지 않은 축소판 파일을 지워 디스크 공간을 되찾는다.
# 접근 시각이 오래된 순서로 지우다가 목표 용량 아래로 내려가면 멈춘다.
def purge_cold_thumbs(root, budget_bytes):
    files = [(p.stat().st_atime, p.stat().st_size, p) for p in Path(root).rglob("*.webp")]
    total = sum(size for _, size, _ in files)
    removed = 0
    for _, size, path in sorted(files):
        if total <= budget_bytes:
            break
        path.unlink(missing_ok=True)
        total -= size
        removed += 1
    return removed
