#!/usr/bin/env node
// A solc command line over the WebAssembly compiler from npm, for tools that expect a binary:
// `--version` and `--standard-json` are all that forge, ape and py-solc-x use.
"use strict";
const path = require("path");
const fs = require("fs");
const soljson = path.join(__dirname, "..", "node_modules", "solc");

// The compiler looks up a function of its table at each of its exceptions' frames, which costs a fifth of its time: each is
// looked up once. What JavaScript changes in the table begins anew; the compiler itself changes nothing in it.
const table = WebAssembly.Table.prototype;
const { get, set, grow } = table;
let [of, functions] = [null, []];
table.get = function (index) {
  if (of !== this) [of, functions] = [this, []];
  return (functions[index] ??= get.call(this, index));
};
for (const [name, change] of Object.entries({ set, grow })) {
  table[name] = function (...given) {
    functions = [];
    return change.apply(this, given);
  };
}

if (process.argv.includes("--version")) {
  const { version } = require(path.join(soljson, "package.json"));
  // The commit is part of the banner, and of the metadata; read it from the compiler itself.
  const wrapper = require(soljson);
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${wrapper.version() || version}`);
} else if (process.argv.includes("--standard-json")) {
  const wrapper = require(soljson);
  const file = process.argv[process.argv.indexOf("--standard-json") + 1];
  const input = fs.readFileSync(file && !file.startsWith("-") ? file : 0, "utf8");
  process.stdout.write(wrapper.compile(input));
} else {
  console.error("solc: this wrapper answers --version and --standard-json");
  process.exit(1);
}
