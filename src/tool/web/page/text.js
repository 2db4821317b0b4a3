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

// Endings of files, and keywords of these languages. `tui` colours by the same table.
const KEYWORDS = `
ada: abstract and array begin body case declare else elsif end exception exit for function generic if in is loop mod
ada: new not null of or others out package private procedure raise record return task then type use when while with
bash sh zsh: break case continue do done elif else esac exit export fi for function if in local readonly return select
bash sh zsh: set shift source then trap unset until while
c cc cpp cxx d h hh hpp m mm: auto bool break case char const continue default do double else enum extern false float
c cc cpp cxx d h hh hpp m mm: for goto if inline int long return short signed sizeof static struct switch true typedef
c cc cpp cxx d h hh hpp m mm: union unsigned void volatile while
cc cpp cxx hh hpp: catch class concept constexpr delete explicit final friend mutable namespace new noexcept nullptr
cc cpp cxx hh hpp: operator override private protected public requires template this throw try typename using virtual
cjs js jsx mjs ts tsx: async await break case catch class const continue default delete do else export extends false
cjs js jsx mjs ts tsx: finally for from function if import in instanceof let new null of return static super switch
cjs js jsx mjs ts tsx: this throw true try typeof undefined var void while yield
clj el lisp scm: and cond def defmacro defn defun defvar do fn if lambda let loop nil not ns or quote setq unless when
cmake: else elseif endforeach endfunction endif endmacro endwhile foreach function if include macro return set while
cs dart gradle groovy java kt kts scala swift: abstract as break case catch class continue default do double else enum
cs dart gradle groovy java kt kts scala swift: extends false final finally float for if implements import in int
cs dart gradle groovy java kt kts scala swift: interface is long new null override package private protected public
cs dart gradle groovy java kt kts scala swift: return static super switch this throw true try var void while
cs: async await base bool byte char const decimal delegate foreach get internal lock namespace out readonly ref sealed
cs: set string struct using virtual yield
dart: async await const dynamic factory late mixin required with yield
elm hs: case class data deriving do else exposing if import in instance let module newtype of qualified then type where
ex exs: after and case catch cond def defmodule defp do else end false fn for if import in nil not or raise receive
ex exs: require rescue true try unless use when with
fish: and begin break case continue else end for function if in not or return set switch while
go: break case chan const continue default defer else fallthrough false for func go goto if import interface map nil
go: package range return select struct switch true type var
gradle groovy java: boolean byte char instanceof native record sealed short synchronized throws transient volatile
jl: abstract begin break catch const continue do else elseif end export false finally for function global if import in
jl: let local macro module mutable nothing quote return struct true try using where while
kt kts: by companion const data fun init lateinit object open sealed suspend typealias val when
lua: and break do else elseif end false for function goto if in local nil not or repeat return then true until while
nix: assert else false if in inherit let null or rec then true with
php: abstract and array as break case catch class const continue default do echo else elseif extends false final finally
php: fn for foreach function global if implements instanceof interface match namespace new null or private protected
php: public require return static switch throw trait true try use var while yield
pl pm: and die do else elsif eq for foreach if last local my ne next no not or our package require return sub undef
pl pm: unless until use while
proto: bool bytes double enum extend float import message oneof option optional package repeated reserved returns rpc
proto: service string syntax
py pyi: False None True and as assert async await break class continue def del elif else except finally for from global
py pyi: if import in is lambda nonlocal not or pass raise return try while with yield
R r: FALSE NULL TRUE break else for function if in next repeat return while
rb: alias and begin break case class def do else elsif end ensure false for if in module next nil not or require rescue
rb: retry return self super then true unless until when while yield
rs: as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut
rs: pub ref return self Self static struct super trait true type unsafe use where while
scala: def given implicit lazy match object sealed trait type using val with yield
sql: alter and as asc begin between by case create default delete desc distinct drop else end exists from group having
sql: in index insert into is join key left like limit not null on or order primary select set table then union unique
sql: update values view when where with
swift: actor async await defer extension fileprivate func guard init inout let nil protocol repeat self Self struct
swift: throws typealias where
tf: data dynamic false for if in locals module null output provider resource terraform true variable
ts tsx: abstract any as boolean declare enum implements interface is keyof namespace never number private protected
ts tsx: public readonly string type unknown
zig: and break catch comptime const continue defer else enum errdefer error export extern false fn for if inline null
zig: or orelse pub return struct switch test true try undefined union unreachable var while
`;

function keywordsOf(ending) {
  const rows = KEYWORDS.trim().split("\n").map((row) => row.split(": "));
  return rows.filter(([endings]) => endings.split(" ").includes(ending)).flatMap(([, words]) => words.split(" "));
}

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
    // The expression `(?!)` matches nothing.
    const keywords = keywordsOf(ending).join("|") || "(?!)";
    // In `pair.0.len`, the digits are the name of a field.
    const digits = "(?<![\\p{L}\\p{N}_$)\\]]\\.)\\b\\d\\w*(?:\\.\\d\\w*)*";
    const source =
      `(?<comment>${comment}.*${block})|(?<string>"(?:\\\\.|[^"\\\\])*"|\`[^\`]*\`|${apostrophes})` +
      `|(?<digits>${digits})|(?<keyword>\\b(?:${keywords})\\b)|[\\p{L}_$][\\p{L}\\p{N}_$]*`;
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
