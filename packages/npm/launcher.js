#!/usr/bin/env node
// Starts the program of this platform. Its package is an optional dependency of this one.
"use strict";

const { spawn } = require("child_process");
const path = require("path");

const platform = `${process.platform}-${process.arch}`;
// npm starts this file under the name of the program.
const called = path.basename(process.argv[1] || "").replace(/\.(js|cmd)$/, "");
const name = called === "ggrep" ? "ggrep" : "forge-search";
const file = process.platform === "win32" ? `${name}.exe` : name;

let program;
try {
  program = require.resolve(`forge-search-${platform}/bin/${file}`);
} catch {
  console.error(
    `${name}: there is no program for ${platform}; install without --omit=optional, or build it with cargo`,
  );
  process.exit(2);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`${name}: ${program}: ${error.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
