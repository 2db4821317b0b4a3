"""公開サイトを組み立てるビルド用スクリプト。"""
import hashlib
import json
from pathlib import Path


def stale_pages(sources: Path, stamp: Path):
    """前回のビルド以降に変更された原稿だけを列挙し、不要な再生成を省く。"""
    seen = json.loads(stamp.read_text()) if stamp.exists() else {}
    for p in sorted(sources.rglob("*.md")):
        digest = hashlib.md5(p.read_bytes()).hexdigest()
        if seen.get(str(p)) != digest:
            yield p, digest


def fingerprint(asset: Path) -> str:
    """内容のハッシュをファイル名に織り込む。長期間キャッシュさせても更新がすぐ行き渡る。"""
    digest = hashlib.md5(asset.read_bytes()).hexdigest()[:8]
    return f"{asset.stem}.{digest}{asset.suffix}"


def broken_links(pages: dict[str, list[str]]) -> list[tuple[str, str]]:
    """サイト内のリンク切れを洗い出す。外部への参照は調べない。"""
    return [
        (page, link)
        for page, links in pages.items()
        for link in links
        if link.startswith("/") and link not in pages
    ]
