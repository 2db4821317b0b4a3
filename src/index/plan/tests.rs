mod evaluation;

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

/// Returns the plan of an expression as text, or the name of the reason why there is no plan.
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
        assert_eq!(shown(expression, fold, strategy), *plan, "{expression}");
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
            (
                "(.*abc|.+xyz)def",
                r#"("abc" or "xyz") and ("bcdef" or "yzdef")"#,
            ),
            (
                "def(abc.*|xyz.*)",
                r#"("abc" or "xyz") and ("defab" or "defxy")"#,
            ),
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

#[test]
fn required_literals_are_part_of_every_match() {
    check(
        Strategy::RequiredLiteral,
        false,
        &[
            ("kmalloc_array", r#""kmalloc_array""#),
            ("foo.*bar", r#""bar" and "foo""#),
            (r"foo\w+bar.baz", r#""bar" and "baz" and "foo""#),
            ("(foo)(bar)", r#""foobar""#),
            (r"^\s*foo\b$", r#""foo""#),
            ("(foo)+bar", r#""foobar""#),
            ("(foo)+.bar", r#""bar" and "foo""#),
            ("(foo){2}", r#""foofoo""#),
            ("foo(bar)?baz", r#""baz" and "foo""#),
            ("foo(bar)*baz", r#""baz" and "foo""#),
            ("foo(bar|quux)baz", r#""baz" and "foo""#),
            ("foo[ab]bar", r#""bar" and "foo""#),
            ("foo[a]bar", r#""fooabar""#),
        ],
    );
}

#[test]
fn parts_of_an_expression_that_are_uncertain_exclude_nothing() {
    check(
        Strategy::RequiredLiteral,
        false,
        &[
            ("kmalloc_array|kvmalloc_node", "strategy"),
            ("foobar|foobaz", "strategy"),
            ("[a-z]{3}_[0-9]{4}_[a-z]{2}", "strategy"),
            ("[ab]cd", "strategy"),
            ("fo(ob|xy)ar", "strategy"),
            (r"foo[^\s\S]?", r#""foo""#),
            (r"[^\s\S]", "strategy"),
            ("(foo)?", "alternatives"),
            ("ab[cd]?", "too_short"),
            (r"\w+", "no_literal"),
        ],
    );
}

#[test]
fn without_case_letters_are_folded() {
    for strategy in [Strategy::Boolean, Strategy::RequiredLiteral] {
        check(
            strategy,
            true,
            &[
                ("[kK][mM]1", r#""km1""#),
                ("KM1", r#""km1""#),
                ("ÉÈ[kK]", r#""ÉÈk""#),
                ("ſ[sS]t", r#""ſst""#),
            ],
        );
    }
    check(
        Strategy::Boolean,
        true,
        &[
            ("[a-zA-Z]_[0-9]_[0-9]", "/[a-z]_[0-9]_[0-9]/"),
            ("[Ée]É[kK]x", r#""Ékx" and /[eÉ]Ék/"#),
            ("[kK\u{17F}]fg", "/[kſ]fg/"),
        ],
    );
}

/// The filters also hold the fold of each n-gram, so not every spelling needs a test.
#[test]
fn with_case_chains_that_have_all_cases_are_folded() {
    check(
        Strategy::Boolean,
        false,
        &[
            ("(?i)fma1", r#""fma1""#),
            ("[fF]oo", r#""foo""#),
            ("[fF]oO", "/[Ff]oO/"),
            ("[Ff]oo.x[Ff]oO", r#""foo" and /x[Ff]oO/"#),
            ("[A-C]oo", "/[A-C]oo/"),
            ("[ABa]oo", "/[ABa]oo/"),
        ],
    );
}

#[test]
fn line_breaks_and_replacement_characters_cut() {
    for strategy in [Strategy::Boolean, Strategy::RequiredLiteral] {
        check(
            strategy,
            false,
            &[
                ("abc\rdef", r#""abc" and "def""#),
                ("abc\r", r#""abc""#),
                ("ab\rcd", "line_break"),
                ("ab\ncd", "line_break"),
                ("abc\u{FFFD}def", r#""abc" and "def""#),
                ("ab\u{FFFD}cd", "replacement_character"),
            ],
        );
    }
    check(
        Strategy::Boolean,
        false,
        &[
            ("abc[\rx]def", r#""abc" and "def""#),
            ("ab[\rx]cd", "too_short"),
            ("ab[\nx]cd", "too_short"),
            ("ab[\u{FFFD}x]cd", "too_short"),
            ("ab[xy]cd", "/ab[xy]cd/"),
            ("(?:abc\r|def)", r#""abc" or "def""#),
        ],
    );
}

#[test]
fn literals_that_normalization_changes_are_not_used() {
    for strategy in [Strategy::Boolean, Strategy::RequiredLiteral] {
        check(
            strategy,
            false,
            &[
                ("cafe\u{301}xyz", "normalization"),
                ("caf\u{E9}xyz", "\"caf\u{E9}xyz\""),
                ("abq\u{323}xyz", r#""abq\u{323}xyz""#),
                ("q\u{301}\u{323}xyz", "normalization"),
                ("\u{212A}abc", "normalization"),
                ("\u{1100}\u{1161}abc", "normalization"),
                ("\u{AC00}\u{11A8}abc", "normalization"),
                ("\u{AC00}abc", "\"\u{AC00}abc\""),
                ("cafe\u{301}.xyz", r#""xyz""#),
            ],
        );
    }
    // Without case, neither spelling may be changed: `h` and the macron compose, `H` and the macron
    // do not.
    for expression in [
        "[hH]\u{331}xyz",
        "H\u{331}xyz",
        "[iI]\u{307}xyz",
        "i\u{307}xyz",
    ] {
        let plan = shown(expression, true, Strategy::Boolean);
        assert_eq!(plan, "normalization", "{expression}");
    }
    assert_eq!(
        shown("H\u{331}xyz", false, Strategy::Boolean),
        r#""H\u{331}xyz""#
    );
}

#[test]
fn classes_stand_next_to_plain_characters_only() {
    check(
        Strategy::Boolean,
        false,
        &[
            // The plan does not examine which members of the class compose with a mark.
            ("ab[cq]\u{323}xyz", r#""\u{323}xyz""#),
            ("ab[cq]\u{323}x", "too_short"),
            ("[ab]xq\u{323}", r#""xq\u{323}" and /[ab]xq/"#),
            ("[ab]\u{1161}cd", "\"\u{1161}cd\""),
            ("ab[x\u{323}]cd", "too_short"),
            // A file with the Kelvin sign is not in Normalization Form C, so it is never excluded.
            ("ab[x\u{212A}]cd", r#""abxcd""#),
            ("[\u{1100}-\u{1103}]ab", "/[\u{1100}-\u{1103}]ab/"),
        ],
    );
}

#[test]
fn every_reason_is_given() {
    check(
        Strategy::Boolean,
        false,
        &[
            ("", "no_literal"),
            (r"\w+", "no_literal"),
            (r"^.*$", "no_literal"),
            ("ab", "too_short"),
            ("a.b.c", "too_short"),
            ("ab|cd", "too_short"),
            ("foo|x", "alternatives"),
            ("foo|", "alternatives"),
            ("(foo)*", "alternatives"),
            ("(foo.*bar){0,9}", "alternatives"),
            ("[0-9a-f]{8}", "too_many_ngrams"),
            ("[a-z]ab|[a-z]cd", "too_many_ngrams"),
            ("a\r\nb", "line_break"),
            (r"(?-u:\xFF)foo", "invalid_utf8"),
            ("(?s-u:.)foo", "invalid_utf8"),
            (r"foo|(?-u:[\x80-\x90])", "invalid_utf8"),
        ],
    );
    for reason in [
        Reason::InvalidUtf8,
        Reason::Strategy,
        Reason::LineBreak,
        Reason::Normalization,
        Reason::ReplacementCharacter,
        Reason::Alternatives,
        Reason::TooManyNgrams,
        Reason::TooShort,
        Reason::NoLiteral,
        Reason::Edits,
    ] {
        let text = reason.to_string();
        assert!(text.len() > 20 && !text.ends_with('.'), "{text}");
        assert_eq!(
            serde_json::to_value(reason).unwrap(),
            serde_json::Value::from(reason.as_str())
        );
    }
}

#[test]
fn literals_shorter_than_an_ngram_exclude_nothing() {
    for (text, ngrams) in [
        ("", 0),
        ("a", 0),
        ("ab", 0),
        ("日本", 0),
        ("abc", 1),
        ("日本語", 1),
    ] {
        for fold in [false, true] {
            let plan = SupersetSafe::for_literal(text, fold);
            assert_eq!(plan.grams().len(), ngrams, "{text}");
            assert_eq!(plan.keeps_everything(), ngrams == 0);
        }
    }
}

#[test]
fn a_literal_is_all_of_its_ngrams() {
    let ngrams = |text: &str, fold| -> Vec<String> {
        let plan = SupersetSafe::for_literal(text, fold);
        let texts = plan
            .grams()
            .iter()
            .map(|gram| gram.chars().iter().collect());
        texts.collect()
    };
    assert_eq!(ngrams("aBcaBc", false), ["aBc", "Bca", "caB"]);
    assert_eq!(ngrams("aBcaBc", true), ["abc", "bca", "cab"]);
    assert_eq!(ngrams("a.b*", false), ["a.b", ".b*"]);
    assert_eq!(ngrams("abc\rdefg", false), ["abc", "def", "efg"]);
}

#[test]
fn limits_drop_information_and_nothing_else() {
    let plan = |expression: &str| {
        SupersetSafe::for_expression(&parse(expression), false, Strategy::Boolean)
    };
    // A literal as long as a pattern can be, in one piece and letter by letter.
    let long: String = ('a'..='y').cycle().take(65_000).collect();
    assert_eq!(plan(&long).grams().len(), 25);
    let folded: String = long
        .chars()
        .map(|c| format!("[{c}{}]", c.to_ascii_uppercase()))
        .collect();
    assert_eq!(plan(&folded).grams().len(), 25);
    // Too many alternatives for products remain a disjunction.
    let words: Vec<String> = (1000..3000).map(|n| format!("word{n}")).collect();
    let many = plan(&words.join("|"));
    assert!(!many.keeps_everything() && many.cost() <= 2000 * 4 + 2);
    assert!(many.describe().unused.is_empty());
    // Products that grow too large are cut. N-grams across the cuts are kept if they are few.
    let product = plan("(?:ab|cd)(?:ef|gh)(?:ij|kl)(?:mn|op)(?:qr|st)(?:uv|wx)(?:yz|01)");
    assert!(!product.keeps_everything());
    // Paths have an allowance.
    let path = "[0-9]{4}_[0-9]{4}_[0-9]{4}_[0-9]{4}";
    let paths: Vec<String> = ('a'..='z').map(|c| format!("{c}{path}{c}.*")).collect();
    let many = plan(&paths.concat());
    assert!(!many.keeps_everything() && many.cost() <= MAX_PATH_GRAMS);
    assert_eq!(many.describe().unused, [Reason::TooManyNgrams]);
    // Nested repetitions.
    let nested = plan("((((((((ab{9,}c){9,}d){9,}e){9,}f){9,}g){9,}h){9,}i){9,}j){9,}");
    assert!(!nested.keeps_everything());
}

/// Returns the plan for a number of edits as text.
fn shown_nearly(expression: &str, edits: u32, fold: bool, strategy: Strategy) -> String {
    let plan = SupersetSafe::nearly(&parse(expression), fold, strategy, edits);
    let description = plan.describe();
    assert_eq!(plan.keeps_everything(), description.requires.is_none());
    assert_eq!(plan.keeps_everything(), plan.reason().is_some());
    match description.reason {
        Some(reason) => reason.as_str().to_string(),
        None => description.to_string(),
    }
}

#[test]
fn plans_for_edits_use_the_required_literals() {
    for strategy in [Strategy::Boolean, Strategy::RequiredLiteral] {
        for (expression, edits, plan) in [
            ("needle", 1, "/needle/ within 1 edit"),
            ("needle", 2, "edits"),
            ("haystacks", 2, "/haystacks/ within 2 edits"),
            ("abcde", 1, "edits"),
            ("needle", 65, "edits"),
            ("foo.*bar", 1, "/foo/ then /bar/ within 1 edit"),
            ("foo.*bar", 2, "edits"),
            ("fo.*bar", 1, "edits"),
            ("^needles?$", 1, "/needle/ within 1 edit"),
            ("(needle)+", 1, "/needle/ within 1 edit"),
            ("(needle){2}", 3, "/needleneedle/ within 3 edits"),
            ("abc\rdefg", 1, "/abc/ then /defg/ within 1 edit"),
            (r"(?-u:\xFF)foo", 1, "invalid_utf8"),
            ("cafe\u{301}xyz", 1, "normalization"),
            (r"\w+", 1, "edits"),
        ] {
            let found = shown_nearly(expression, edits, false, strategy);
            assert_eq!(found, plan, "{expression} {edits}");
        }
        let folded = shown_nearly("[nN]ee[dD]le", 1, true, strategy);
        assert_eq!(folded, "/needle/ within 1 edit");
    }
    for (expression, required, boolean) in [
        (
            "needle|thread",
            "strategy",
            "/needle/ within 1 edit or /thread/ within 1 edit",
        ),
        ("needle|so", "strategy", "edits"),
        ("nee[dt]le", "edits", "/nee[dt]le/ within 1 edit"),
        (
            "abcd[0-9]efgh",
            "/abcd/ then /efgh/ within 1 edit",
            "/abcd/ then /efgh/ within 1 edit",
        ),
    ] {
        let found = |strategy| shown_nearly(expression, 1, false, strategy);
        assert_eq!(found(Strategy::RequiredLiteral), required, "{expression}");
        assert_eq!(found(Strategy::Boolean), boolean, "{expression}");
    }
    let plan = SupersetSafe::nearly(&parse("nee[dt]le"), false, Strategy::Boolean, 1);
    let nearly = serde_json::json!({"nearly": {"edits": 1, "texts": ["nee[dt]le"], "ngrams": 7}});
    assert_eq!(
        serde_json::to_value(plan.describe()).unwrap(),
        serde_json::json!({"requires": nearly, "ngrams": 7})
    );
}

#[test]
fn a_description_says_which_parts_are_not_used_and_counts_n_grams_once() {
    let describe = |expression: &str| {
        SupersetSafe::for_expression(&parse(expression), false, Strategy::Boolean).describe()
    };
    let description = describe("[a-z]{3}_[0-9]{4}_[a-z]{2}");
    assert_eq!(description.unused, [Reason::TooManyNgrams]);
    assert_eq!(description.unused_parts, ["[a-z][a-z][a-z]"]);
    // Three digits in a row occur at two places.
    let Some(Requirement::Path { ngrams, .. }) = description.requires else {
        panic!("{description}");
    };
    assert_eq!((ngrams, description.ngrams), (3072, 3072));
    // Adjacent parts are shown as one; a part that is used elsewhere is not shown.
    let description = describe("foo[a-z]{5}bar.*[a-z][a-z]_[0-9][0-9]");
    assert!(
        description
            .unused_parts
            .contains(&"[a-z][a-z][a-z][a-z][a-z]".to_string()),
        "{:?}",
        description.unused_parts
    );
    assert!(describe("[a-c][a-c]x").unused_parts.is_empty());
    assert!(
        describe("[a-z]{3}").unused_parts.is_empty(),
        "nothing is used"
    );
    // There may be more parts than a user wants to read.
    let many: Vec<String> = ('a'..='z')
        .map(|c| format!("{c}{c}{c}[a-z]{{3}}{c}."))
        .collect();
    assert!(describe(&many.concat()).unused_parts.len() <= 4);
}

#[test]
fn descriptions_are_for_people_and_programs() {
    let hir = parse(r"foo_(?:bar|[0-9]{2}x)\s");
    let plan = SupersetSafe::for_expression(&hir, false, Strategy::Boolean);
    let description = plan.describe();
    assert_eq!(
        description.to_string(),
        r#""foo_bar" or ("foo_" and /o_[0-9][0-9]x/)"#
    );
    let json = serde_json::to_value(&description).unwrap();
    let literal = |text: &str, ngrams: &[&str]| serde_json::json!({"literal": {"text": text, "ngrams": ngrams}});
    let digits = serde_json::json!({"path": {"texts": "o_[0-9][0-9]x", "ngrams": 210}});
    let all = serde_json::json!({"all": [literal("foo_", &["foo", "oo_"]), digits]});
    let any = [
        literal("foo_bar", &["_ba", "bar", "foo", "o_b", "oo_"]),
        all,
    ];
    assert_eq!(
        json,
        serde_json::json!({"requires": {"any": any}, "ngrams": 215})
    );
    let nothing = SupersetSafe::for_literal("ab", false).describe();
    assert_eq!(
        serde_json::to_value(&nothing).unwrap(),
        serde_json::json!({"reason": "too_short", "ngrams": 0})
    );
    assert_eq!(nothing.to_string(), Reason::TooShort.to_string());
}
