"use strict";

// How text of the tree is shown: hidden characters as escapes, and code in colours.

// Controls, separators and characters without a shape. For example, U+202E reverses the order of
// the text after it.
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

const visible = (text) =>
  String(text).replace(HIDDEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = visible(text);
  return made;
};

// The endings of files by the start of a comment. Other files have no colours.
const LANGUAGES = {
  "\\/\\/": "c cc cjs cpp cs css cxx dart go h hh hpp java js jsx kt mjs php proto rs scala scss swift ts tsx zig",
  "#": "bash cmake jl mk nix pl py r rb sh tf toml yaml yml",
  "--": "ada hs lua sql",
};

const KEYWORDS =
  "abstract and as async await begin bool break case catch char class const continue crate def default del do " +
  "double elif else elseif end enum except export extends extern false final finally float fn for from func function go " +
  "if impl implements import in include int interface is lambda let local long loop match mod module mut namespace new " +
  "nil none None not null or package pass private protected pub public raise ref return self short static " +
  "str string struct super switch template then this throw trait true True False try type typedef typeof union unless " +
  "unsafe unsigned until use using var virtual void when where while with yield select insert update delete";

// Longer lines have no colours: they are seldom written by people.
const MAX_COLOURED = 2000;

const coloured = new Map();

// Returns the expression for the tokens of a file. Lines are coloured one by one, so a comment or a
// string of several lines is not.
function tokensOf(path) {
  const ending = /\.([^./]+)$/.exec(path)?.[1];
  if (!coloured.has(ending)) {
    const comment = Object.keys(LANGUAGES).find((start) => LANGUAGES[start].split(" ").includes(ending));
    // In Rust, an apostrophe also begins the name of a lifetime.
    const apostrophes = ending === "rs" ? "'(?:\\\\[^']+|[^'\\\\])'" : "'(?:\\\\.|[^'\\\\])*'";
    const block = comment?.includes("/") ? "|\\/\\*.*?(?:\\*\\/|$)" : "";
    const source =
      `(?<comment>${comment}.*${block})|(?<string>"(?:\\\\.|[^"\\\\])*"|\`[^\`]*\`|${apostrophes})` +
      `|(?<digits>\\b\\d[\\w.]*)|(?<keyword>\\b(?:${KEYWORDS.replaceAll(" ", "|")})\\b)|[\\p{L}_$][\\p{L}\\p{N}_$]*`;
    coloured.set(ending, comment && new RegExp(source, "gu"));
  }
  return coloured.get(ending);
}

// Appends a line of a file, with its characters from `from` to `to` marked.
function appendLine(row, line, path, from = 0, to = 0) {
  const text = line.replace(/\r$/, "");
  const mark = element("mark");
  const put = (start, end, kind) => {
    const parts = [[start, Math.min(end, from), row], [Math.max(start, from), Math.min(end, to), mark], [Math.max(start, to), end, row]];
    for (const [begin, finish, parent] of parts) {
      if (begin >= finish) continue;
      if (parent === mark && !mark.parentNode) row.append(mark);
      const part = text.slice(begin, finish);
      parent.append(kind ? element("span", kind, part) : visible(part));
    }
  };
  let done = 0;
  const tokens = text.length <= MAX_COLOURED && tokensOf(path);
  for (const token of tokens ? text.matchAll(tokens) : []) {
    const kind = Object.keys(token.groups).find((name) => token.groups[name] !== undefined);
    if (!kind) continue;
    put(done, token.index);
    done = token.index + token[0].length;
    put(token.index, done, kind);
  }
  put(done, text.length);
}
