use proptest::prelude::*;

use super::*;

fn defined(line: &str, path: &str) -> Option<(Kind, String)> {
    let found = definition(line.as_bytes(), Language::of(path))?;
    Some((found.kind, line[found.name].to_string()))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn definitions_of_many_languages_are_recognized() {
    use Kind::*;
    for (path, line, kind, name) in [
        ("a.rs", "pub(crate) struct Needle<'a> {", Type, "Needle"),
        (
            "a.rs",
            "    pub async fn needle(&self) {",
            Function,
            "needle",
        ),
        ("a.rs", "impl<T> Needle<T> {", Reopened, "Needle"),
        ("a.rs", "macro_rules! needle {", Function, "needle"),
        ("a.rs", "pub const NEEDLE: u32 = 1;", Variable, "NEEDLE"),
        ("a.py", "class Needle(Base):", Type, "Needle"),
        ("a.py", "    async def needle(self):", Function, "needle"),
        ("a.py", "NEEDLE = 3", Variable, "NEEDLE"),
        ("a.go", "func (n *Hay) Needle(x int) {", Function, "Needle"),
        ("a.go", "type Needle struct {", Type, "Needle"),
        (
            "a.c",
            "static inline void *needle(size_t n, gfp_t flags)",
            Function,
            "needle",
        ),
        (
            "a.c",
            "static inline __alloc_size(1, 2) void *needle(size_t n, size_t size)",
            Function,
            "needle",
        ),
        (
            "a.c",
            "static int __needle(int n) __must_hold(lock)",
            Function,
            "__needle",
        ),
        ("a.c", "needle(struct hay *x, int n)", Function, "needle"),
        ("a.c", "needle(void)", Function, "needle"),
        ("a.c", "extern inline int needle(int n)", Function, "needle"),
        ("a.c", "struct needle {", Type, "needle"),
        ("a.h", "class A_LOCK A_WARN(1) Needle {", Type, "Needle"),
        ("a.h", "class LIBRARY_API Needle : Hay {", Type, "Needle"),
        ("a.h", "struct NEEDLE {", Type, "NEEDLE"),
        ("a.c", "struct hay *needle(int n)", Function, "needle"),
        ("a.c", "struct needle;", Reopened, "needle"),
        ("a.c", "typedef struct hay needle;", Type, "needle"),
        ("a.h", "typedef int (*needle)(void);", Type, "needle"),
        ("a.h", "#define NEEDLE 1", Variable, "NEEDLE"),
        ("a.h", "# define needle(x) (x)", Function, "needle"),
        ("a.cpp", "void Hay::needle(int n) {", Function, "needle"),
        ("a.ts", "export default class Needle {", Type, "Needle"),
        ("a.ts", "  needle(x: number): string {", Function, "needle"),
        ("a.js", "const needle = (x) => x;", Function, "needle"),
        ("a.js", "exports.needle = hay;", Reopened, "exports.needle"),
        (
            "a.js",
            "exports.needle = hay();",
            Function,
            "exports.needle",
        ),
        (
            "a.js",
            "exports.needle = function () {",
            Function,
            "exports.needle",
        ),
        (
            "A.java",
            "    public static int needle(int x) {",
            Function,
            "needle",
        ),
        (
            "A.java",
            "    @Override public void needle() {",
            Function,
            "needle",
        ),
        ("a.rb", "  def self.needle?(x)", Function, "self.needle?"),
        ("a.ex", "  defp needle(x) do", Function, "needle"),
        ("a.hs", "needle :: Int -> Int", Function, "needle"),
        ("a.sh", "needle() {", Function, "needle"),
        ("a.js", "  get(key) {", Function, "get"),
        ("a.zig", "pub const Needle = struct {", Type, "Needle"),
        ("a.kt", "data class Needle(val x: Int)", Type, "Needle"),
        ("a.swift", "extension Needle {", Reopened, "Needle"),
    ] {
        assert_eq!(
            defined(line, path),
            Some((kind, name.to_string())),
            "{path}: {line}"
        );
    }
}

#[test]
fn uses_define_nothing() {
    for (path, line) in [
        ("a.c", "struct COLOR red;"),
        ("a.cc", "Mutex::~Mutex() { end(); }"),
        ("a.c", "int needle(int x);"),
        ("a.c", "\tneedle(x);"),
        ("a.c", "return needle(x)"),
        ("a.c", "extern unsigned long needle(struct hay *x,"),
        ("a.c", "needle(x, y,"),
        ("a.c", "needle(x + 1,"),
        ("a.c", "TRACE_EVENT(needle x,"),
        ("a.rs", "    a.needle(x)"),
        ("a.rs", "// fn needle"),
        ("a.rs", "    let needle = 1;"),
        ("a.py", "    if needle(x):"),
        ("a.js", "  if (needle) {"),
        ("a.py", "x == needle"),
        ("a.md", ""),
        ("a.md", "   "),
    ] {
        assert_eq!(defined(line, path), None, "{path}: {line}");
    }
}

#[test]
fn the_last_part_of_a_qualified_name_is_the_name() {
    let line = b"exports.needle = 1";
    let found = definition(line, Language::JavaScript).unwrap();
    assert_eq!(found.last(line), b"needle");
}

proptest::proptest! {
    #[test]
    fn any_line_is_read(line: Vec<u8>, text in "\\PC{0,60}", path in "[a-z]\\.(rs|c|js|hs|sh)") {
        for line in [&line[..], text.as_bytes()] {
            if let Some(found) = definition(line, Language::of(&path)) {
                proptest::prop_assert!(found.name.start < found.name.end && found.name.end <= line.len());
            }
        }
    }
}

proptest! {
    #[test]
    fn the_quick_look_misses_no_definition(
        line in "[ \t]{0,5}(@Override |pub |export |static |def |fn |struct |type |exports\\.|~|::|\\.)?[a-z:.]{0,6}[ ]?(\\(\\)|\\(x\\)|=|:: |: )?[ ]?(\\{|;|x = 1)?",
        path in "a\\.(c|hs|js|sh|py)",
    ) {
        let (line, language) = (line.as_bytes(), Language::of(&path));
        let indent = line.len() - line.trim_ascii_start().len();
        if indent < line.len() && !may_define(line, indent, language) {
            let reader = Reader { line, at: indent, indent, language };
            let found = reader.definition().filter(|found| !found.name.is_empty());
            prop_assert_eq!(found, None);
        }
    }
}
