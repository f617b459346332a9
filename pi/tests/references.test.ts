import assert from "node:assert/strict";
import { test } from "node:test";
import { CUSTOM_TYPE, references, toldOf } from "../sesame/references.ts";

const CASES: [string, string[]][] = [
  ["as in @@confirm-button", ["confirm-button"]],
  ["@@0199aaaa-bbbb~2, then (@@other) and @@@third.", ["0199aaaa-bbbb~2", "other", "third"]],
  ["@@name: what did we decide?", ["name"]],
  ["@@twice and @@twice", ["twice"]],
  ["@@Übersicht-語", ["Übersicht-語"]],
  ["diff:\n@@ -1,3 +1,4 @@ def f\n@@@ -1 @@@", []],
  ["a@@b.c, me@@x", []],
  ["`@@code` and ```\n@@fence\n``` but @@prose", ["prose"]],
  ["``` never closed @@x", []],
  ["@@ @@@ @@@@x @@,", []],
  ["@@a @@b @@c @@d @@e @@f @@g @@h @@i", ["a", "b", "c", "d", "e", "f", "g", "h"]],
  ["nothing", []],
];

for (const [prompt, expected] of CASES) test(`in ${JSON.stringify(prompt)}`, () => assert.deepEqual(references(prompt), expected));

test("what was told stays told until a compaction", () => {
  const told = (id: string) => ({ type: "custom_message", customType: CUSTOM_TYPE, details: { ids: [id] } });
  assert.deepEqual(toldOf([told("a"), { type: "message" }, told("b")]), new Set(["a", "b"]));
  assert.deepEqual(toldOf([told("a"), { type: "compaction" }, told("b")]), new Set(["b"]));
  assert.deepEqual(toldOf([{ type: "custom_message", customType: "another", details: { ids: ["a"] } }, { type: "custom_message", customType: CUSTOM_TYPE }]), new Set());
});
