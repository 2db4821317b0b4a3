"use strict";

// The token stays in the address, so that a reload keeps it. The page sends it only to its own
// server.
const token = new URLSearchParams(location.search).get("token");
const $ = (id) => document.getElementById(id);

// Where a browser keeps no storage, the setting of the editor lasts as long as the page.
const storage = (() => {
  try {
    return localStorage;
  } catch {
    return { getItem: () => "", setItem: () => {} };
  }
})();

async function ask(path, options = {}) {
  const response = await fetch(path, {
    ...options,
    headers: { Authorization: `Bearer ${token}`, ...options.headers },
  });
  const kind = response.headers.get("Content-Type") || "";
  if (!kind.startsWith("application/json")) throw new Error((await response.text()).trim());
  return response.json();
}

// The fields of the form that make a question. The address carries those that differ from their
// defaults, and the token.
const FIELDS = ["mode", "pattern", "path", "glob", "case", "word", "text", "fuzzy", "context", "most", "places"];
const value = (id) => ($(id).type === "checkbox" ? String($(id).checked) : $(id).value);
const defaults = {};

function address() {
  const parameters = new URLSearchParams({ token });
  for (const id of FIELDS) if (value(id) !== defaults[id]) parameters.set(id, value(id));
  return `?${parameters}`;
}

// Sets the form to the question of the address.
function restore() {
  $("form").reset();
  const parameters = new URLSearchParams(location.search);
  for (const id of FIELDS) {
    const field = $(id);
    defaults[id] ??= value(id);
    if (!parameters.has(id)) continue;
    if (field.type === "checkbox") field.checked = parameters.get(id) === "true";
    else field.value = parameters.get(id);
    if (field.selectedIndex === -1) field.value = defaults[id];
  }
  turnMode();
}

// While a question is typed, its entry in the history is replaced. A settled one keeps its entry.
let settled = true;
let settling = null;

function changed() {
  turnMode();
  if (address() === location.search) return;
  clearTimeout(settling);
  history[settled ? "pushState" : "replaceState"](null, "", address());
  settled = false;
  soon();
}

function settle() {
  clearTimeout(settling);
  settled = true;
}

// In the ranked mode, the form asks a question in words.
const ranked = () => $("mode").value === "ranked";

function turnMode() {
  for (const one of document.querySelectorAll(".exact")) one.hidden = ranked();
  for (const one of document.querySelectorAll(".ranked")) one.hidden = !ranked();
  $("pattern").placeholder = ranked() ? "Ask in words, or give a name" : "Search (press / to get here)";
}

const whole = (id, most, otherwise) => Math.min(most, Math.max(1, Math.floor(Number($(id).value)) || otherwise));

// Builds the request for the tool find_code from the form.
function question() {
  const asked = { question: $("pattern").value.trim(), max_results: whole("places", 1000, 10) };
  const path = $("path").value.trim();
  if (path) asked.path = path;
  return asked;
}

// Builds the request for the tool Search from the form.
function request() {
  const asked = {
    pattern: $("pattern").value,
    fixed_strings: $("text").checked,
    word_regexp: $("word").checked,
    case: $("case").value,
    context: Math.min(20, Math.max(0, Math.floor(Number($("context").value)) || 0)),
    max_results: whole("most", 5000, 200),
  };
  const path = $("path").value.trim();
  if (path) asked.path = path;
  const fuzzy = Number($("fuzzy").value);
  if (fuzzy > 0) asked.fuzzy = fuzzy;
  const globs = $("glob").value.split(",").map((glob) => glob.trim()).filter(Boolean);
  const include = globs.filter((glob) => !glob.startsWith("!"));
  const exclude = globs.filter((glob) => glob.startsWith("!")).map((glob) => glob.slice(1)).filter(Boolean);
  if (include.length) asked.include_glob = include;
  if (exclude.length) asked.exclude_glob = exclude;
  return asked;
}

let running = null;
let timer = null;
let shown = "";

// Searches again to give the results their links to the editor.
function showAgain() {
  if (!shown) return;
  shown = "";
  soon(0);
}

function soon(wait = 90) {
  clearTimeout(timer);
  $("results").setAttribute("aria-busy", "true");
  timer = setTimeout(search, wait);
}

async function search() {
  clearTimeout(timer);
  timer = null;
  const isRanked = ranked();
  const asked = isRanked ? question() : request();
  if (running) running.abort();
  running = null;
  if (!(asked.question || asked.pattern)) {
    $("results").replaceChildren();
    $("results").setAttribute("aria-busy", "false");
    note("");
    shown = "";
    return;
  }
  const mine = new AbortController();
  running = mine;
  $("results").classList.add("old");
  $("results").setAttribute("aria-busy", "true");
  const began = performance.now();
  try {
    const answer = await ask(isRanked ? "api/code" : "api/search", {
      method: "POST",
      body: JSON.stringify(asked),
      headers: { "Content-Type": "application/json" },
      signal: mine.signal,
    });
    if (running !== mine) return;
    const took = performance.now() - began;
    if (answer.error) {
      note(inForm(answer.error.message || answer.error.code), "bad");
      return;
    }
    latencies.push(took);
    if (latencies.length > 120) latencies.shift();
    plot();
    $("results").classList.remove("old");
    (isRanked ? showPlaces : show)(answer, took);
    clearTimeout(settling);
    settling = setTimeout(settle, 1000);
  } catch (error) {
    if (mine.signal.aborted) return;
    note(`No answer: ${error.message}`, "bad");
  } finally {
    if (!running || running === mine) {
      running = null;
      // The form may have changed meanwhile. Then the next search is due.
      $("results").setAttribute("aria-busy", String(timer !== null));
    }
  }
}

// The tools name the fields of their requests. The page names those of its form.
const FORM_FIELDS = [
  [/\braise max_results$/, 'raise "at most"'],
  [/ Raise timeout_ms, or search a `path`$/, " Search a path"],
  [/^`(?:pattern|question|include_glob|exclude_glob)`: /, ""],
  [/; for example \{.*\}$/, ""],
  [/; fixed_strings = true searches for the text as it is$/, '; "text" searches for it as it is'],
];
const inForm = (text) => FORM_FIELDS.reduce((said, [field, shown]) => said.replace(field, shown), text);

function note(text, kind = "") {
  $("note").textContent = visible(text);
  $("note").className = kind;
}

const encoder = new TextEncoder();

// Appends the line of a result with its match marked. Columns count bytes of the file. The shown text can have
// more bytes, because each invalid UTF-8 sequence is shown as U+FFFD, which takes three.
function content(row, data) {
  const line = data.lines.text;
  const path = data.path.text;
  if (data.column === undefined || !data.match_text) {
    appendLine(row, line, path);
    return;
  }
  // Counts each U+FFFD as one byte, because most invalid sequences are single bytes. If the match
  // is not at the counted position, or the start of a long line is cut off, marks the next
  // occurrence of the matched text, or the first one.
  let at = 0;
  let bytes = 0;
  for (const c of line) {
    if (bytes >= data.column - 1) break;
    at += c.length;
    bytes += c === "\ufffd" ? 1 : encoder.encode(c).length;
  }
  if (bytes !== data.column - 1 || !line.startsWith(data.match_text, at)) {
    let from = 0;
    for (let seen = 0; from < line.length && seen < data.column - 1; ) {
      const c = String.fromCodePoint(line.codePointAt(from));
      seen += encoder.encode(c).length;
      from += c.length;
    }
    at = line.indexOf(data.match_text, from);
    if (at < 0) at = line.indexOf(data.match_text);
  }
  appendLine(row, line, path, at, at < 0 ? at : at + data.match_text.length);
}

// Creates a button that opens a file at a line.
function opener(className, text, path, line) {
  const button = element("button", `open ${className}`, text);
  button.type = "button";
  button.dataset.path = path;
  button.dataset.line = line;
  return button;
}

// Creates the button with the number of a line. The keys of the page reach it, not the tab key.
function numberOf(path, line) {
  const button = opener("number", line, path, line);
  button.tabIndex = -1;
  button.setAttribute("aria-label", `Open ${visible(path)} at line ${line}`);
  return button;
}

function titleOf(text, path, line) {
  const title = element("h3");
  title.append(opener("", text, path, line));
  const link = editorLink(path, line);
  if (link) {
    const edit = element("a", "edit", "edit");
    edit.setAttribute("aria-label", `Open ${visible(path)} in the editor`);
    edit.href = link;
    title.append(edit);
  }
  return title;
}

// An address that may open an editor: none that runs a script or loads a page.
const EDITOR = /^(?!(?:javascript|data|vbscript|blob|file|https?|wss?|ftp):)[a-z][a-z0-9+.-]*:/i;

// Returns the address that opens a file in the editor of the setting, if there is one.
function editorLink(path, line) {
  const template = $("editor").value.trim();
  if (!root || !EDITOR.test(template)) return "";
  const absolute = path.startsWith("/") ? path : `${root}/${path}`;
  const encoded = absolute.split("/").map(encodeURIComponent).join("/");
  return template.replaceAll("{path}", () => encoded).replaceAll("{line}", line);
}

function show(answer, took) {
  const results = $("results");
  const text = JSON.stringify(answer.matches);
  if (text !== shown) {
    shown = text;
    const all = document.createDocumentFragment();
    let path = null;
    let block = null;
    let last = 0;
    for (const { type, data } of answer.matches) {
      if (data.path.text !== path) {
        path = data.path.text;
        const file = element("article", "file");
        file.append(titleOf(path, path, data.line_number));
        block = element("pre");
        file.append(block);
        all.append(file);
      } else if (data.line_number > last + 1 && $("context").value > 0) {
        block.append(element("span", "gap"));
      }
      last = data.line_number;
      const row = element("span", `row ${type}`);
      row.append(numberOf(path, data.line_number));
      content(row, data);
      block.append(row);
    }
    results.replaceChildren(all);
  }
  const count = answer.matches.filter((match) => match.type === "match").length;
  const files = new Set(answer.matches.map((match) => match.data.path.text)).size;
  const said = [`${count} ${count === 1 ? "line" : "lines"} in ${files} ${files === 1 ? "file" : "files"}, ${took.toFixed(1)} ms`];
  if (answer.truncated) said.push("these are the first results: more exist");
  if (answer.timed_out) said.push("the search timed out: results may be missing");
  if (answer.errors.length) said.push(`${answer.errors.length} could not be read, first ${answer.errors[0].path}`);
  note(said.join(" — "), answer.truncated || answer.timed_out || answer.errors.length ? "warn" : "");
}

function showPlaces(answer, took) {
  const results = $("results");
  const text = JSON.stringify(answer.places);
  if (text !== shown) {
    shown = text;
    const all = document.createDocumentFragment();
    for (const place of answer.places) {
      const file = element("article", "file");
      const title = titleOf(`${place.path}:${place.start_line}`, place.path, place.start_line);
      title.append(element("span", "why", `${place.match_pct} % · ${(place.why ?? []).join(", ")}`));
      const block = element("pre");
      place.content.replace(/\n$/, "").split("\n").forEach((line, nth) => {
        const row = element("span", "row");
        row.append(numberOf(place.path, place.start_line + nth));
        appendLine(row, line, place.path);
        block.append(row);
      });
      file.append(title, block);
      all.append(file);
    }
    results.replaceChildren(all);
  }
  const said = [`${answer.returned} ${answer.returned === 1 ? "place" : "places"}, ${took.toFixed(1)} ms`, ...answer.notes.map(inForm)];
  note(said.join(" — "), answer.truncated || answer.timed_out ? "warn" : "");
}

let reading = null;

// Shows a file around a line.
async function openFile(path, line) {
  const mine = { path, line };
  reading = mine;
  $("file-name").textContent = visible(path);
  $("file-note").textContent = "";
  if (!$("file").open) $("file").showModal();
  try {
    const got = await ask(`api/file?${new URLSearchParams({ path, line })}`);
    if (reading !== mine) return;
    if (got.error) throw new Error(got.error.message || got.error.code);
    showFile(got);
  } catch (error) {
    if (reading !== mine) return;
    $("lines").replaceChildren();
    for (const id of ["earlier", "later", "file-edit"]) $(id).hidden = true;
    $("file-note").textContent = visible(error.message);
  }
}

function showFile(got) {
  const last = got.first_line + got.lines.length - 1;
  const cut = new Set(got.cut_lines);
  const rows = got.lines.map((line, nth) => {
    const row = element("span", "row");
    row.append(element("span", "number", got.first_line + nth));
    appendLine(row, line, got.path);
    if (cut.has(got.first_line + nth)) row.append(element("span", "quiet", " … (the rest of this line is not shown)"));
    return row;
  });
  $("lines").replaceChildren(...rows);
  const said = [got.lines.length ? `lines ${got.first_line} to ${last} of ${got.total_lines}` : "the file has no lines"];
  if (cut.size) said.push(`${cut.size} shortened`);
  if (got.has_binary_rest) said.push("binary data follows, which has no lines");
  $("file-note").textContent = said.join(" — ");
  for (const [id, line, exists] of [["earlier", got.first_line - 1, got.first_line > 1], ["later", last + 1, last < got.total_lines]]) {
    $(id).hidden = !exists;
    $(id).onclick = () => openFile(got.path, line);
  }
  const link = editorLink(got.path, got.line);
  $("file-edit").hidden = !link;
  $("file-edit").href = link;
  const asked = rows[got.line - got.first_line];
  if (!asked) return;
  asked.setAttribute("aria-current", "true");
  asked.scrollIntoView({ block: "center" });
}

// Moves the focus to the next or previous result.
function move(step) {
  const all = [...document.querySelectorAll("#results .open")];
  const at = all.indexOf(document.activeElement);
  if (at + step < 0) $("pattern").focus();
  else all[at + step]?.focus();
}

const latencies = [];

function plot() {
  const svg = $("plot");
  const named = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const sorted = [...latencies].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  $("latency-text").textContent = `last ${latencies.length}: half within ${at(0.5).toFixed(1)} ms, 95 % within ${at(0.95).toFixed(1)} ms`;
  // A logarithmic scale from 1 to 10,000 milliseconds.
  const y = (ms) => 80 - (Math.log10(Math.min(10000, Math.max(1, ms))) / 4) * 72;
  const x = (n) => 30 + (n * 262) / Math.max(1, latencies.length - 1);
  const parts = [];
  for (const [ms, label] of [[1, "1 ms"], [10, "10"], [100, "100"], [1000, "1 s"], [10000, "10 s"]]) {
    parts.push(named("line", { x1: 30, x2: 296, y1: y(ms), y2: y(ms) }));
    parts.push(named("text", { x: 26, y: y(ms) + 3, "text-anchor": "end" }, label));
  }
  const points = latencies.map((ms, n) => `${x(n).toFixed(1)},${y(ms).toFixed(1)}`);
  parts.push(named("polyline", { points: points.join(" ") }));
  const newest = latencies.length - 1;
  parts.push(named("circle", { cx: x(newest), cy: y(latencies[newest]), r: 2.5 }));
  svg.replaceChildren(...parts);
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

const STATES = {
  idle: ["good", "the index is up to date"],
  building: ["warn", "an index is being built; until then, searches read the whole tree"],
  syncing: ["good", "the index is processing changes; answers already include them"],
  waiting: ["warn", "no index can be used at the moment; searches read the whole tree"],
  off: ["", "no index: searches read the whole tree"],
  stale: ["warn", "the configuration has changed; start the daemon again"],
};

function state(kind, text) {
  $("state").className = kind;
  $("state-text").textContent = visible(text);
}

// The root of the tree, once the server has told it.
let root = "";

async function look() {
  let wait = 2000;
  try {
    const { status, building, name, error } = await ask("api/status");
    if (error) throw new Error(error.message || error.code);
    if (root !== name) {
      root = name;
      showAgain();
    }
    $("name").textContent = visible(name);
    document.title = visible(`${name.split("/").pop() || name} · forge-search`);
    const [kind, text] = STATES[status.sync.state] || ["warn", status.sync.state];
    if (building && building.build_files_total > 0) {
      const done = Math.floor((100 * building.build_files_done) / building.build_files_total);
      state("warn", `an index is being built (${done} % of ${building.build_files_total} files); until then, searches read the whole tree`);
      wait = 500;
    } else {
      state(kind, text);
    }
    const { disk } = status.resources;
    const facts = [
      ["state", status.sync.state],
      ["size", `${bytes(disk.store_bytes)} of ${bytes(disk.store_budget_bytes)}`],
      ["compared", status.sync.last_sync_at ? ago(status.sync.last_sync_at) : "not yet"],
      ["commit", status.snapshot.head_sha ? status.snapshot.head_sha.slice(0, 10) + (status.snapshot.dirty ? ", edited" : "") : "none"],
      ["running, waiting", `${status.queries.in_flight}, ${status.queries.queue_depth}`],
      ["refused, late", `${status.queries.busy_total}, ${status.queries.timeouts_total}`],
      ["daemon since", status.daemon.started_at ? ago(status.daemon.started_at) : "–"],
    ];
    $("index").replaceChildren(...facts.flatMap(([term, value]) => [element("dt", "", term), element("dd", "", value)]));
  } catch (error) {
    state("bad", `no answer: ${error.message}`);
  }
  setTimeout(look, document.hidden ? 15000 : wait);
}

async function check() {
  $("check").disabled = true;
  try {
    const health = await ask("api/health");
    if (health.error) throw new Error(health.error.message || health.error.code);
    const order = { fail: 0, warn: 1, ok: 2 };
    const checks = [...health.checks].sort((a, b) => order[a.severity] - order[b.severity]);
    $("health").replaceChildren(...checks.map((one) => element("li", one.severity, `${one.code}: ${one.message}`)));
  } catch (error) {
    $("health").replaceChildren(element("li", "fail", `no answer: ${error.message}`));
  } finally {
    $("check").disabled = false;
  }
}

$("editor").value = storage.getItem("editor") ?? "";
$("editor").addEventListener("change", () => {
  const template = $("editor").value.trim();
  const isUsable = !template || EDITOR.test(template);
  storage.setItem("editor", template);
  $("editor").setAttribute("aria-invalid", !isUsable);
  $("editor-text").className = isUsable ? "quiet" : "quiet bad";
  showAgain();
});
$("type").addEventListener("change", () => {
  const globs = [$("glob").value.trim(), $("type").value].filter(Boolean);
  $("glob").value = globs.join(", ");
  $("type").value = "";
});
$("form").addEventListener("input", changed);
$("form").addEventListener("change", () => {
  changed();
  settle();
});
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  soon(0);
  settle();
});
window.addEventListener("popstate", () => {
  settle();
  restore();
  soon(0);
});
$("results").addEventListener("click", (event) => {
  const button = event.target.closest(".open");
  if (button) openFile(button.dataset.path, button.dataset.line);
});
for (const button of document.querySelectorAll(".close")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
$("check").addEventListener("click", check);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const focused = document.activeElement;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(focused.tagName);
  if (typing && !(focused === $("pattern") && event.key === "ArrowDown")) return;
  const actions = {
    "/": () => $("pattern").select(),
    "?": () => $("keys").showModal(),
    ArrowDown: () => move(1),
    j: () => move(1),
    ArrowUp: () => move(-1),
    k: () => move(-1),
    e: () => {
      const link = focused.dataset.path && editorLink(focused.dataset.path, focused.dataset.line);
      if (link) location.assign(link);
    },
  };
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
// Files may have changed while the page was hidden, so search again.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && $("pattern").value) soon(0);
});
restore();
history.replaceState(null, "", address());
search();
look();
