//! Rewrites a syntax tree into the normal form of [`crate::exec::matching::pattern`].
//!
//! This happens on the syntax tree, not on the translated expression, because folding must happen
//! before negation: without case, `[^k]` means "neither `k` nor `K`".

use std::mem;

use regex_syntax::ast::{
    AssertionKind, Ast, ClassBracketed, ClassSet, ClassSetBinaryOp, ClassSetBinaryOpKind,
    ClassSetItem, ClassSetRange, ClassSetUnion, Flag, Flags, FlagsItemKind, GroupKind, Literal,
    LiteralKind, Span,
};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Class, HirKind};

use crate::exec::question::query::CaseRule;

/// Rewrites `ast` in place. Under [`CaseRule::Ascii`] the flag `i` is removed, and each letter in
/// its scope becomes a class of both cases. `insensitive` is the flag's state at the start of the
/// tree. Under [`CaseRule::Unicode`] the flag stays.
///
/// The parser's nesting limit bounds the recursion.
pub(crate) fn normalize(ast: &mut Ast, insensitive: bool, rule: CaseRule) {
    let mut state = State {
        insensitive: insensitive && rule == CaseRule::Ascii,
        rule,
    };
    visit(ast, &mut state);
}

/// The state of the flags at a place of the tree.
#[derive(Clone, Copy)]
struct State {
    insensitive: bool,
    rule: CaseRule,
}

/// Rewrites a tree. Changes `state` if the tree sets the flag for the rest of the expression.
fn visit(ast: &mut Ast, state: &mut State) {
    match ast {
        Ast::Empty(_) | Ast::Dot(_) | Ast::ClassPerl(_) => {}
        Ast::Flags(set) => {
            let span = set.span;
            apply_flags(&mut set.flags, state);
            if set.flags.items.is_empty() {
                *ast = Ast::empty(span);
            }
        }
        Ast::Literal(literal) => {
            if state.insensitive
                && let Some(other) = other_case(literal.c)
            {
                let items = vec![
                    ClassSetItem::Literal((**literal).clone()),
                    ClassSetItem::Literal(verbatim(literal.span, other)),
                ];
                *ast = Ast::class_bracketed(bracketed(literal.span, false, items));
            }
        }
        Ast::Assertion(assertion) => match assertion.kind {
            AssertionKind::StartText => assertion.kind = AssertionKind::StartLine,
            AssertionKind::EndText => assertion.kind = AssertionKind::EndLine,
            _ => {}
        },
        Ast::ClassUnicode(class) => {
            if state.insensitive {
                let span = class.span;
                let item = ClassSetItem::Unicode((**class).clone());
                if let Some(folded) = fold_named(span, item) {
                    *ast = Ast::class_bracketed(folded);
                }
            }
        }
        Ast::ClassBracketed(class) => {
            if state.insensitive {
                fold_set(&mut class.kind);
            }
        }
        Ast::Repetition(repetition) => visit(&mut repetition.ast, state),
        Ast::Group(group) => {
            // Flags set inside a group end with it.
            let mut inner = *state;
            if let GroupKind::NonCapturing(flags) = &mut group.kind {
                apply_flags(flags, &mut inner);
            }
            visit(&mut group.ast, &mut inner);
        }
        Ast::Alternation(alternation) => {
            for ast in &mut alternation.asts {
                visit(ast, state);
            }
        }
        Ast::Concat(concat) => {
            for ast in &mut concat.asts {
                visit(ast, state);
            }
        }
    }
}

/// Removes the flags that the normal form lacks from `flags`, and updates the state of `i`.
fn apply_flags(flags: &mut Flags, state: &mut State) {
    let mut negated = false;
    let mut kept = Vec::new();
    let mut negation = None;
    for item in mem::take(&mut flags.items) {
        match item.kind {
            FlagsItemKind::Negation => {
                negated = true;
                negation = Some(item);
            }
            FlagsItemKind::Flag(Flag::CaseInsensitive) if state.rule == CaseRule::Ascii => {
                state.insensitive = !negated;
            }
            FlagsItemKind::Flag(Flag::MultiLine | Flag::CRLF) => {}
            FlagsItemKind::Flag(_) => {
                // A negation with no flag after it would not parse.
                kept.extend(negation.take());
                kept.push(item);
            }
        }
    }
    flags.items = kept;
}

/// Returns the letter in the other case, for ASCII letters.
fn other_case(c: char) -> Option<char> {
    if c.is_ascii_lowercase() {
        Some(c.to_ascii_uppercase())
    } else if c.is_ascii_uppercase() {
        Some(c.to_ascii_lowercase())
    } else {
        None
    }
}

fn verbatim(span: Span, c: char) -> Literal {
    Literal {
        span,
        kind: LiteralKind::Verbatim,
        c,
    }
}

fn range(span: Span, start: char, end: char) -> ClassSetItem {
    ClassSetItem::Range(ClassSetRange {
        span,
        start: verbatim(span, start),
        end: verbatim(span, end),
    })
}

fn bracketed(span: Span, negated: bool, items: Vec<ClassSetItem>) -> ClassBracketed {
    let union = ClassSetUnion { span, items };
    ClassBracketed {
        span,
        negated,
        kind: ClassSet::Item(ClassSetItem::Union(union)),
    }
}

/// Folds a set. Folding distributes over unions, and the operands of an operation are folded before
/// it.
fn fold_set(set: &mut ClassSet) {
    match set {
        ClassSet::Item(item) => fold_item(item),
        ClassSet::BinaryOp(op) => {
            fold_set(&mut op.lhs);
            fold_set(&mut op.rhs);
        }
    }
}

fn fold_item(item: &mut ClassSetItem) {
    let folded = match item {
        ClassSetItem::Empty(_) | ClassSetItem::Perl(_) => None,
        ClassSetItem::Literal(literal) => other_case(literal.c).map(|other| {
            let span = literal.span;
            union(
                span,
                vec![
                    ClassSetItem::Literal(literal.clone()),
                    ClassSetItem::Literal(verbatim(span, other)),
                ],
            )
        }),
        ClassSetItem::Range(given) => fold_range(given),
        ClassSetItem::Ascii(class) => {
            let span = class.span;
            fold_named(span, ClassSetItem::Ascii(class.clone()))
                .map(|class| ClassSetItem::Bracketed(Box::new(class)))
        }
        ClassSetItem::Unicode(class) => {
            let span = class.span;
            fold_named(span, ClassSetItem::Unicode(class.clone()))
                .map(|class| ClassSetItem::Bracketed(Box::new(class)))
        }
        ClassSetItem::Bracketed(class) => {
            fold_set(&mut class.kind);
            None
        }
        ClassSetItem::Union(items) => {
            items.items.iter_mut().for_each(fold_item);
            None
        }
    };
    if let Some(folded) = folded {
        *item = folded;
    }
}

fn union(span: Span, items: Vec<ClassSetItem>) -> ClassSetItem {
    ClassSetItem::Union(ClassSetUnion { span, items })
}

/// Adds the other case of the letters in a range.
fn fold_range(given: &ClassSetRange) -> Option<ClassSetItem> {
    let span = given.span;
    let (start, end) = (given.start.c, given.end.c);
    let mut items = vec![ClassSetItem::Range(given.clone())];
    for (first, last, flip) in [('a', 'z', 'A'), ('A', 'Z', 'a')] {
        let (from, to) = (start.max(first), end.min(last));
        if from <= to {
            let flipped = |c: char| (c as u8 - first as u8 + flip as u8) as char;
            items.push(range(span, flipped(from), flipped(to)));
        }
    }
    (items.len() > 1).then(|| union(span, items))
}

/// Folds a named class such as `\p{Lu}` or `[:^upper:]`, which may be negated itself. Returns
/// `None` if folding does not change it.
fn fold_named(span: Span, item: ClassSetItem) -> Option<ClassBracketed> {
    let negated = match &item {
        ClassSetItem::Ascii(class) => class.negated,
        ClassSetItem::Unicode(class) => class.is_negated(),
        _ => false,
    };
    let members = ascii_letters(span, &item)?;
    // For a negated class, folding applies to the positive class: the letters that are not members.
    let positive = |c: char| members.contains(&c) != negated;
    let changed: Vec<char> = ('a'..='z')
        .chain('A'..='Z')
        .filter(|&c| !positive(c) && other_case(c).is_some_and(positive))
        .collect();
    if changed.is_empty() {
        return None;
    }
    let letters: Vec<ClassSetItem> = changed
        .iter()
        .map(|&c| ClassSetItem::Literal(verbatim(span, c)))
        .collect();
    if !negated {
        let mut items = vec![item];
        items.extend(letters);
        return Some(bracketed(span, false, items));
    }
    let lhs = ClassSet::Item(item);
    let rhs = ClassSet::Item(ClassSetItem::Bracketed(Box::new(bracketed(
        span, false, letters,
    ))));
    let kind = ClassSet::BinaryOp(ClassSetBinaryOp {
        span,
        kind: ClassSetBinaryOpKind::Difference,
        lhs: Box::new(lhs),
        rhs: Box::new(rhs),
    });
    Some(ClassBracketed {
        span,
        negated: false,
        kind,
    })
}

/// Returns the ASCII letters of a class. `None` if the class does not translate. The later
/// translation of the whole expression reports why.
fn ascii_letters(span: Span, item: &ClassSetItem) -> Option<Vec<char>> {
    let ast = Ast::class_bracketed(bracketed(span, false, vec![item.clone()]));
    let hir = TranslatorBuilder::new().build().translate("", &ast).ok()?;
    let holds: Box<dyn Fn(char) -> bool> = match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Box::new(|c| {
            class
                .iter()
                .any(|range| range.start() <= c && c <= range.end())
        }),
        HirKind::Class(Class::Bytes(class)) => Box::new(|c| {
            class
                .iter()
                .any(|r| r.start() <= c as u8 && c as u8 <= r.end())
        }),
        HirKind::Literal(literal) => Box::new(|c| *literal.0 == [c as u8]),
        _ => return None,
    };
    Some(('a'..='z').chain('A'..='Z').filter(|&c| holds(c)).collect())
}

#[cfg(test)]
mod tests {
    use regex_syntax::ast::parse::Parser;

    use super::*;

    /// Returns the matching characters among all up to U+2200 and the two that fold onto ASCII
    /// letters.
    fn matched(expression: &str) -> Vec<char> {
        let regex =
            regex_automata::hybrid::regex::Regex::new(&format!("^(?:{expression})$")).unwrap();
        let mut cache = regex.create_cache();
        ('\0'..'\u{2200}')
            .filter(|c| regex.is_match(&mut cache, c.to_string().as_bytes()))
            .collect()
    }

    fn normalized(expression: &str) -> String {
        let mut ast = Parser::new().parse(expression).unwrap();
        normalize(&mut ast, true, CaseRule::Ascii);
        let mut text = String::new();
        regex_syntax::ast::print::Printer::new()
            .print(&ast, &mut text)
            .unwrap();
        text
    }

    /// Checks a class against its oracle. The normal form must match exactly the characters that
    /// the plain class matches without case, when the positive set is folded by hand.
    fn check(positive: &str, negated: &str) {
        let members = matched(positive);
        let folds =
            |c: char| members.contains(&c) || other_case(c).is_some_and(|o| members.contains(&o));
        let expected: Vec<char> = ('\0'..'\u{2200}').filter(|&c| folds(c)).collect();
        assert_eq!(matched(&normalized(positive)), expected, "{positive}");
        let rest: Vec<char> = ('\0'..'\u{2200}').filter(|&c| !folds(c)).collect();
        assert_eq!(matched(&normalized(negated)), rest, "{negated}");
    }

    #[test]
    fn classes_fold_ascii_letters_before_negation() {
        for (positive, negated) in [
            ("[k]", "[^k]"),
            ("[a-f]", "[^a-f]"),
            ("[Y-é]", "[^Y-é]"),
            (r"\p{Lu}", r"\P{Lu}"),
            (r"[\p{Ll}]", r"[^\p{Ll}]"),
            (r"[\p{Lu}]", r"[\P{Lu}]"),
            ("[[:upper:]]", "[^[:upper:]]"),
            ("[[:upper:]]", "[[:^upper:]]"),
            (r"\w", r"\W"),
            (r"[\w--[a-m]]", r"[^\w--[a-m]]"),
            (r"[\x6B]", r"[^\x6B]"),
            ("s", "[^s]"),
            (r"\u{17F}", r"[^\u{17F}]"),
        ] {
            // The set difference folds its operands first, so the expected class has them folded.
            if positive.contains("--") {
                assert_eq!(matched(&normalized(positive)), matched(r"[\w--[a-mA-M]]"));
                assert_eq!(matched(&normalized(negated)), matched(r"[^\w--[a-mA-M]]"));
            } else {
                check(positive, negated);
            }
        }
    }

    #[test]
    fn flags_that_the_normal_form_lacks_disappear() {
        assert_eq!(normalized("(?i)a"), "[aA]");
        assert_eq!(normalized("(?im-s:a)"), "(?-s:[aA])");
        assert_eq!(normalized("(?s-i)a"), "(?s)a");
        assert_eq!(normalized("(?x) a b # note"), "(?x)[aA][bB]");
    }
}
