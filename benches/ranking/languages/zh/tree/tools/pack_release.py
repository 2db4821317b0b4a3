"""打包发布版本的构建脚本。"""
import tarfile
from pathlib import Path

SKIP = {".git", "node_modules", "__pycache__"}


def collect(root: Path):
    """收集要打进安装包的文件，跳过版本库和依赖目录，按路径排序。"""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not SKIP & set(path.parts):
            yield path


def reproducible(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """抹掉归档条目里的时间戳和属主，使同样的源码每次构建得到逐字节相同的包。"""
    info.mtime = 0
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def bump(version: str, part: str) -> str:
    """递增版本号，升级主版本时次版本和修订号归零。"""
    major, minor, patch = map(int, version.split("."))
    if part == "major":
        return f"{major + 1}.0.0"
    if part == "minor":
        return f"{major}.{minor + 1}.0"
    return f"{major}.{minor}.{patch + 1}"
