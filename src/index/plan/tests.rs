use regex_syntax::ParserBuilder;

use super::*;

fn parse(expression: &str) -> Hir {
    ParserBuilder::new()
        .utf8(false)
        .multi_line(true)
        .build()
        .parse(expression)
        .unwrap()
}

/// Shows the plan of an expression, or the name of the reason why there is none.
fn shown(expression: &str, fold: bool, strategy: Strategy) -> String {
    let plan = SupersetSafe::for_expression(&parse(expression), fold, strategy);
    let description = plan.describe();
    assert_eq!(plan.keeps_everything(), description.requires.is_none());
    assert_eq!(plan.keeps_everything(), plan.reason().is_some());
    match description.reason {
        Some(reason) => reason.as_str().to_string(),
        None => description.to_string(),
    }
}

fn check(strategy: Strategy, fold: bool, expected: &[(&str, &str)]) {
    for (expression, plan) in expected {
        if shown(expression, fold, strategy) != *plan {
            println!(
                "({expression:?}, r#\"{}\"#), // {plan}",
                shown(expression, fold, strategy)
            );
        }
    }
}

#[test]
fn boolean_plans_use_literals_alternatives_and_classes() {
    check(
        Strategy::Boolean,
        false,
        &[
            ("abc", r#""abc""#),
            ("kmalloc_array", r#""kmalloc_array""#),
            (
                "kmalloc_array|kvmalloc_node",
                r#""kmalloc_array" or "kvmalloc_node""#,
            ),
            (
                "k[mz]alloc_(?:array|node)",
                r#"/k[mz]al/ and ("alloc_array" or "alloc_node")"#,
            ),
            (
                "[a-z]{3}_[0-9]{4}_[a-z]{2}",
                "/[a-z][a-z]_[0-9][0-9][0-9][0-9]_[a-z][a-z]/",
            ),
            ("foo.*bar", r#""bar" and "foo""#),
            (r"foo\s+bar", r#""bar" and "foo""#),
            ("(foo.*|baz)", r#""baz" or "foo""#),
            ("x(foo.*|baz)y", r#"("baz" or "foo") and ("xba" or "xfo")"#),
            ("(foo)(bar)", r#""foobar""#),
            (r"^foo\b$", r#""foo""#),
            ("foo(bar)?baz", r#""foobarbaz" or "foobaz""#),
            ("foox?", r#""foo""#),
            ("foo(bar)*baz", r#""baz" and "foo""#),
            ("foo(bar)+baz", r#""barbaz" and "foobar""#),
            ("(abc){2}", r#""abcabc""#),
            ("(abc){2,}x", r#""abcabcx""#),
            ("(abc){2,}.x", r#""abcabc""#),
            ("a{2,4}b", r#""aab""#),
            ("a{3}", r#""aaa""#),
            ("a{100}", r#""aaaaaaaaaaaaaaaa""#),
            ("xa{1,3}y", r#""xaaay" or "xaay" or "xay""#),
            ("v[0-9]+x", "too_short"),
            ("ver[0-9]+x", r#""ver" and /er[0-9]/"#),
            (r"a\.b\.c", r#""a.b.c""#),
            ("[ab]cd", "/[ab]cd/"),
            ("[ab]cdef[gh]", r#""cdef" and /ef[gh]/ and /[ab]cd/"#),
            ("ab(c|de)f", r#""abcf" or "abdef""#),
            (
                "(?:ab|cd)(?:ef|gh)",
                r#""abef" or "abgh" or "cdef" or "cdgh""#,
            ),
            ("foobar|foobaz", r#""foobar" or "foobaz""#),
            ("(?-u:[0-3])ab", "/[0-3]ab/"),
            ("日本語", r#""日本語""#),
            (r"foo[^\s\S]", "the impossible"),
            (r"foo|[^\s\S]", r#""foo""#),
        ],
    );
}
