import assert from "node:assert/strict";
import { test } from "node:test";
import { asked, completions } from "../sesame/asked.ts";

const CASES: [string, string, Record<string, string>][] = [
  ["retry logic", "retry logic", {}],
  ["--cwd . retry --after=7d logic", "retry logic", { cwd: ".", after: "7d" }],
  ["path:src/a.ts source:claude plum", "plum", { path: "src/a.ts", source: "claude" }],
  ['"a phrase" -"not this" -word pre*', '"a phrase" -"not this" -word pre*', {}],
  ['--path "my file.ts" cwd:"/a b"', "", { path: "my file.ts", cwd: "/a b" }],
  ["nope:x http://a path:", "nope:x http://a path:", {}],
  ["", "", {}],
];

for (const [text, query, given] of CASES) test(`what is asked for: ${text || "nothing"}`, () => assert.deepEqual(asked(text), { query, given }));

test("a filter that there is not, and one without its value", () => {
  assert.throws(() => asked("--pathh x"), /no filter --pathh; there are --cwd, --path/);
  assert.throws(() => asked("plum --after"), /--after needs a value: active since/);
});

const values = (text: string) => completions(text, ["claude", "pi"])?.map(({ value }) => value) ?? null;

test("filters and their values are completed, with all that stands before them", () => {
  assert.deepEqual(values("--")?.slice(0, 2), ["--cwd ", "--path "]);
  assert.deepEqual(values("plum --")?.[0], "plum --cwd ");
  assert.deepEqual(values("plum --a"), ["plum --after "]);
  assert.deepEqual(values("plum source:"), ["plum source:claude ", "plum source:pi "]);
  assert.deepEqual(values("--source c"), ["--source claude "]);
  assert.deepEqual(values("--source=p"), ["--source=pi "]);
  assert.deepEqual(values("--cwd "), ["--cwd . "]);
  for (const none of ["", "plum -", "plum -path", "path", "plum af", "plum", "plum ", "nope:", "--nope ", "path:x", "--cwd .", "source:pi", "--status=error"]) assert.equal(values(none), null, none);
});
