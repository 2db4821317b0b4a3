import struct
import subprocess
import zlib
from pathlib import Path

MAGIC = b"LKR1"


# 보관함 제어기에 올릴 펌웨어 이미지를 하나로 묶는다. 머리말에 길이와 체크섬을 적어 두어
# 내려받다가 끊긴 이미지를 장비가 스스로 알아보고 거부할 수 있다.
def pack_image(parts, out):
    body = b"".join(Path(p).read_bytes() for p in parts)
    head = MAGIC + struct.pack("<II", len(body), zlib.crc32(body))
    Path(out).write_bytes(head + body)


# 배포판 번호를 깃 태그에서 뽑아낸다. 커밋하지 않은 수정이 남아 있으면 뒤에 dirty를 붙여서
# 개발자 노트북에서 구운 이미지가 현장에 나가는 사고를 막는다.
def stamp_version(repo="."):
    cmd = ["git", "-C", repo, "describe", "--tags", "--dirty"]
    return subprocess.run(cmd, check=True, capture_output=True, text=True).stdout.strip()


# 바뀐 소스가 있는 모듈만 다시 컴파일하도록 목록을 추린다.
# 목적 파일이 없거나 소스보다 오래되었으면 바뀐 것으로 본다.
def stale_modules(src_dir, obj_dir):
    stale = []
    for src in sorted(Path(src_dir).glob("*.c")):
        obj = Path(obj_dir) / (src.stem + ".o")
        if not obj.exists() or obj.stat().st_mtime < src.stat().st_mtime:
            stale.append(src.name)
    return stale
