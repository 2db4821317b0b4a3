"use strict";

// The token stays in the address, so that a reload keeps it. The page sends it only to its own
// server.
const token = new URLSearchParams(location.search).get("token");
const $ = (id) => document.getElementById(id);
const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

async function ask(path, options = {}) {
  const response = await fetch(path, {
    ...options,
    headers: { Authorization: `Bearer ${token}`, ...options.headers },
  });
  const kind = response.headers.get("Content-Type") || "";
  if (!kind.startsWith("application/json")) throw new Error((await response.text()).trim());
  return response.json();
}

// In the ranked mode, the form asks a question in words. The address keeps the mode.
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

function soon(wait = 90) {
  clearTimeout(timer);
  timer = setTimeout(search, wait);
}

async function search() {
  const isRanked = ranked();
  const asked = isRanked ? question() : request();
  if (running) running.abort();
  running = null;
  if (!(asked.question || asked.pattern)) {
    $("results").replaceChildren();
    note("");
    shown = "";
    return;
  }
  const mine = new AbortController();
  running = mine;
  $("results").classList.add("old");
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
      note(answer.error.message || answer.error.code, "bad");
      return;
    }
    latencies.push(took);
    if (latencies.length > 120) latencies.shift();
    plot();
    (isRanked ? showPlaces : show)(answer, took);
  } catch (error) {
    if (mine.signal.aborted) return;
    note(`No answer: ${error.message}`, "bad");
  } finally {
    if (running === mine) running = null;
  }
}

function note(text, kind = "") {
  $("note").textContent = text;
  $("note").className = kind;
}

const encoder = new TextEncoder();

// Appends a line with its match marked. Columns count bytes of the file. The shown text can have
// more bytes, because each invalid UTF-8 sequence is shown as U+FFFD, which takes three.
function content(row, data) {
  const line = data.lines.text;
  if (data.column === undefined || !data.match_text) {
    row.append(line);
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
  if (at < 0) {
    row.append(line);
    return;
  }
  row.append(line.slice(0, at), element("mark", "", data.match_text), line.slice(at + data.match_text.length));
}

function show(answer, took) {
  const results = $("results");
  results.classList.remove("old");
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
        file.append(element("h3", "", path));
        block = element("pre");
        file.append(block);
        all.append(file);
      } else if (data.line_number > last + 1 && $("context").value > 0) {
        block.append(element("span", "gap"));
      }
      last = data.line_number;
      const row = element("span", `row ${type}`);
      row.append(element("span", "number", String(data.line_number)));
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
  results.classList.remove("old");
  const text = JSON.stringify(answer.places);
  if (text !== shown) {
    shown = text;
    const all = document.createDocumentFragment();
    for (const place of answer.places) {
      const file = element("article", "file");
      const title = element("h3", "", `${place.path}:${place.start_line}`);
      title.append(element("span", "why", `${place.match_pct} % · ${(place.why ?? []).join(", ")}`));
      const block = element("pre");
      place.content.replace(/\n$/, "").split("\n").forEach((line, nth) => {
        const row = element("span", "row");
        row.append(element("span", "number", String(place.start_line + nth)), line);
        block.append(row);
      });
      file.append(title, block);
      all.append(file);
    }
    results.replaceChildren(all);
  }
  const said = [`${answer.returned} ${answer.returned === 1 ? "place" : "places"}, ${took.toFixed(1)} ms`, ...answer.notes];
  note(said.join(" — "), answer.truncated || answer.timed_out ? "warn" : "");
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
  $("state-text").textContent = text;
}

async function look() {
  let wait = 2000;
  try {
    const { status, building, name, error } = await ask("api/status");
    if (error) throw new Error(error.message || error.code);
    $("name").textContent = name;
    document.title = `${name.split("/").pop() || name} · forge-search`;
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

$("mode").value = new URLSearchParams(location.search).get("mode") === "ranked" ? "ranked" : "exact";
turnMode();
$("mode").addEventListener("change", () => {
  const address = new URL(location.href);
  if (ranked()) address.searchParams.set("mode", "ranked");
  else address.searchParams.delete("mode");
  history.replaceState(null, "", address);
  turnMode();
});
$("form").addEventListener("input", () => soon());
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  soon(0);
});
$("check").addEventListener("click", check);
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing) {
    event.preventDefault();
    $("pattern").select();
  }
});
// Files may have changed while the page was hidden, so search again.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && $("pattern").value) soon(0);
});
look();
