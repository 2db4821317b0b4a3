use std::path::{Component, Path, PathBuf};

/// 올라온 증빙 사진의 파일 이름을 안전한 경로로 바꾼다. 점 두 개로 상위 폴더에 빠져나가려는
/// 시도가 있으면 받아들이지 않는다.
pub fn safe_join(root: &Path, name: &str) -> Option<PathBuf> {
    let rel = Path::new(name);
    let clean = rel.components().all(|c| matches!(c, Component::Normal(_)));
    (clean && !name.is_empty()).then(|| root.join(rel))
}

/// 확장자를 믿지 않고 파일 첫머리의 바이트를 보고 실제 그림 형식을 알아낸다.
pub fn sniff_image(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(&[0xff, 0xd8, 0xff]) {
        return Some("jpeg");
    }
    if head.starts_with(b"\x89PNG") {
        return Some("png");
    }
    // RIFF 상자는 여덟 바이트 뒤에 진짜 형식이 나온다
    (head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP")).then_some("webp")
}

/// 한글 이름이 맥에서 풀어쓴 자모로 올라와 길이 제한을 넘기는 일이 잦다.
/// 글자가 중간에 깨지지 않는 자리에서 이름을 자르고 확장자는 살려 둔다.
pub fn shorten_name(name: &str, max: usize) -> String {
    let (stem, ext) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut end = max.saturating_sub(ext.len() + 1).min(stem.len());
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}.{}", &stem[..end], ext)
}
