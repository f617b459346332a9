import assert from "node:assert/strict";
import { test } from "node:test";
import { CUSTOM_TYPE, isExact, isReference, questionIn, references, toldOf, withAncestors, withBlock } from "../sesame/references.ts";

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

for (const [prompt, expected] of CASES) test(`in ${JSON.stringify(prompt)}`, () => assert.deepEqual(references(prompt).map(({ name }) => name), expected));

test("two signs mean this project first, three do not", () => {
  assert.deepEqual(references("@@here and @@@there"), [{ name: "here", everywhere: false }, { name: "there", everywhere: true }]);
});

test("what is inserted is read again as it is", () => {
  for (const id of ["0199aaaa-bbbb", "ses_1", "a~2", "Übersicht"]) assert(isReference(id) && references(`see @@${id}.`)[0]?.name === id, id);
  for (const none of ["", "-x", "a b", "a\nb", "a.", "a\u200bb", "a`b"]) assert(!isReference(none), none);
});

test("a session is meant by its id, a good part of it, or its whole name, and by nothing else", () => {
  const session = { sessionId: "7e57ab1e-0000", name: "Error handling" };
  for (const meant of ["7e57ab", "7e57ab1e-0000", "pi:7e57ab1e-0000", "Error_Handling", "error-handling"]) assert(isExact(meant, session), meant);
  for (const not of ["error", "7e57", "handling", "error-hand", "handling-error", "error-handling-2", "-"]) assert(!isExact(not, session), not);
  assert(isExact("error", { sessionId: "1", name: "Error!" }) && isExact("1", { sessionId: "1", name: null }));
  const counted = ["pear~1", "pear~", "a~2~12", "pear", "~1", "pear~0"].map((one) => withAncestors(one));
  assert.deepEqual(counted, [{ name: "pear", ancestors: 1 }, { name: "pear", ancestors: 1 }, { name: "a~2", ancestors: 12 }, undefined, undefined, { name: "pear", ancestors: 0 }]);
});

test("a question to a session begins with its reference and a colon", () => {
  assert.deepEqual(questionIn(" @@plum-tree: why\nno fruit? "), { name: "plum-tree", question: "why\nno fruit?" });
  assert.deepEqual(questionIn("@@@pi:0199aaaa~1: why @@other?"), { name: "pi:0199aaaa~1", question: "why @@other?" });
  for (const none of ["@@plum", "@@plum:", "@@plum: ", "@@plum why?", "as in @@plum: why?", "@@plum:why?", "@@ -1 +1 @@: x", "`@@plum: why?`", ""]) assert.equal(questionIn(none), undefined, none);
});

test("what stands behind a prompt counts as told, in text or in blocks", () => {
  const text = withBlock("see @@a", "@@a is the past session", ["id-1", 'i"2>']);
  for (const content of [text, [{ type: "text", text }, { type: "image" }]]) assert.deepEqual(toldOf([{ type: "message", message: { role: "user", content } }]), new Set(["id-1", 'i"2>']));
  for (const message of [{ role: "assistant", content: text }, { role: "user", content: `\n<${CUSTOM_TYPE} ids=[oops]>\n` }, {}]) assert.deepEqual(toldOf([{ type: "message", message }]), new Set());
});

test("what was told stays told until a compaction", () => {
  const told = (id: string) => ({ type: "custom_message", customType: CUSTOM_TYPE, details: { ids: [id] } });
  assert.deepEqual(toldOf([told("a"), { type: "message" }, told("b")]), new Set(["a", "b"]));
  assert.deepEqual(toldOf([told("a"), { type: "compaction" }, told("b")]), new Set(["b"]));
  assert.deepEqual(toldOf([{ type: "custom_message", customType: "another", details: { ids: ["a"] } }, { type: "custom_message", customType: CUSTOM_TYPE }]), new Set());
});
