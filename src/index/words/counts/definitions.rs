//! Terms of the names that a text defines, and of those that it offers from other modules.

use memchr::memchr;

use super::{Marks, STOP_INTERVAL};
use crate::index::words::definition::offers::each_offer;
use crate::index::words::definition::{Definition, Kind, Language, definition};
use crate::index::words::forms::{self, each_form};
use crate::index::words::names::Names;

/// Calls `add` for the terms of each name that a text defines. Returns `None` if `stop` says so.
pub(super) fn each_definition(
    path: &str,
    text: &[u8],
    stop: impl Fn() -> bool,
    mut add: impl FnMut(u32, Marks),
) -> Option<()> {
    let language = Language::of(path);
    let (mut start, mut nth) = (0, 0usize);
    while start < text.len() {
        nth += 1;
        if nth.is_multiple_of(STOP_INTERVAL) && stop() {
            return None;
        }
        let end = memchr(b'\n', &text[start..]).map_or(text.len(), |feed| start + feed);
        let line = &text[start..end];
        if let Some(found) = definition(line, language) {
            define(line, &found, &mut add);
        }
        start = end + 1;
    }
    define_offers(path, text, &mut add);
    Some(())
}

/// Calls `add` for the terms of each name that a text offers.
pub(in crate::index::words) fn define_offers(
    path: &str,
    text: &[u8],
    add: &mut impl FnMut(u32, Marks),
) {
    each_offer(path, text, |name| {
        let found = Definition {
            kind: Kind::Offered,
            name,
        };
        define(text, &found, add);
    });
}

/// Calls `add` for the terms of a name that a line defines or offers.
pub(in crate::index::words) fn define(
    line: &[u8],
    found: &Definition,
    add: &mut impl FnMut(u32, Marks),
) {
    let marks = match found.kind {
        Kind::Function => Marks::IN_FUNCTION,
        Kind::Type => Marks::IN_TYPE,
        Kind::Variable | Kind::Offered | Kind::Reopened => Marks::default(),
    };
    if marks != Marks::default() {
        let name = &line[found.name.clone()];
        for range in Names::of(name) {
            // The accents were counted with the text.
            each_form(&name[range], |form| add(form.key, marks.join_all()));
        }
    }
    let last = found.last(line);
    if is_one_name(last) {
        let kind = Marks::of_kind(found.kind).join_all();
        add(forms::whole(last), kind);
        add(forms::defined(last), kind);
    }
}

/// Returns true for a name, several names that are joined by hyphens, and a name with marks at its
/// end, such as `empty?`.
fn is_one_name(text: &[u8]) -> bool {
    let is_mark = |byte: &u8| matches!(byte, b'?' | b'!' | b'\'');
    let end = text.iter().rposition(|byte| !is_mark(byte));
    let text = &text[..end.map_or(0, |last| last + 1)];
    let mut end = None;
    for name in Names::of(text) {
        let follows = match end {
            None => name.start == 0,
            Some(end) => text[end..name.start] == *b"-",
        };
        if !follows {
            return false;
        }
        end = Some(name.end);
    }
    end == Some(text.len())
}
