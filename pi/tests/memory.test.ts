import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Ask } from "../sesame/ask.ts";
import { AnswerError, parseAnswer } from "../sesame/memory/answer.ts";
import { Budget, SpentError } from "../sesame/memory/budget.ts";
import { context, type Entry, fitted, MAX_BYTES, promptsSince, readConversation } from "../sesame/memory/conversation.ts";
import { metaPath, readMeta, writeMeta } from "../sesame/memory/meta.ts";
import { readLanguages } from "../sesame/memory/languages.ts";
import { due } from "../sesame/memory/older.ts";
import { day } from "../sesame/text.ts";

const place = () => mkdtempSync(join(tmpdir(), "memory-"));

// -- what is in the context

const said = (id: string, role = "user"): Entry => ({ type: "message", id, message: { role } });
const compaction = (id: string, firstKeptEntryId: string | null): Entry => ({ type: "compaction", id, firstKeptEntryId });

test("without a compaction all that was said is in the context", () => {
  const branch = [{ type: "model_change", id: "0" }, said("1"), said("2", "assistant"), said("3", "toolResult"), { type: "branch_summary", id: "4" }, { type: "custom", id: "5" }];
  assert.deepEqual(context({ getBranch: () => branch }), ["1", "2", "4"]);
});

test("the newest compaction stands for what it sums up, and comes first", () => {
  const branch = [said("1"), compaction("2", "1"), said("3"), said("4"), compaction("5", "3"), said("6")];
  assert.deepEqual(context({ getBranch: () => branch }), ["5", "3", "4", "6"]);
  assert.deepEqual(context({ getBranch: () => [...branch.slice(0, 4), compaction("5", null), said("6")] }), ["5", "6"]);
});

test("what pi itself says of the context counts, less what was edited out", () => {
  const entries = [compaction("5", "2"), compaction("2", "1"), said("3"), said("4"), { type: "context_edit", id: "7", targetId: "3" }];
  assert.deepEqual(context({ getBranch: () => [], buildContextEntries: () => entries }), ["5", "4"]);
});

test("prompts behind an entry; all, if it is not on this branch", () => {
  const branch = [said("1"), said("2", "assistant"), said("3"), { type: "custom", id: "4" }];
  assert.deepEqual(["1", "3", "4", "gone", undefined].map((leaf) => promptsSince(branch, leaf)), [1, 0, 0, 2, 2]);
});

// -- in which languages the person asks

test("sesamectl says which languages are configured, and is not run where none can be", async (here) => {
  const [before, directory, ran] = [process.env.SESAME_CONFIG_DIR, place(), [] as string[][]];
  here.after(() => (before === undefined ? delete process.env.SESAME_CONFIG_DIR : (process.env.SESAME_CONFIG_DIR = before)));
  process.env.SESAME_CONFIG_DIR = directory;
  const read = (stdout: string, code = 0) => readLanguages(async (_program, args) => (ran.push(args), { stdout, stderr: "line 1:\n wrong", code }), new AbortController().signal);
  const configured = (text: string) => writeFileSync(join(directory, "config.jsonc"), text);
  assert.deepEqual(await read("?"), []);
  configured('{memory: {command: ["llm"]}}');
  assert.deepEqual([await read("?"), ran], [[], []]);
  configured('{memory: {languages: ["German"]}}');
  assert.deepEqual(await read('{"settings": {"memory.languages": {"value": ["German"], "from": "x"}}}'), ["German"]);
  assert.deepEqual(await read('{"settings": {"hub.languages": {"value": {}}}}'), []);
  await assert.rejects(read("", 3), /cannot read memory\.languages: line 1: wrong/);
  assert.deepEqual(ran[0], ["config", "--json"]);
});

// -- what of it is shown

/** A daemon with these messages, each of an entry of the same name; a page has at most seven. */
function daemon(messages: [entryId: string, role: string, text: string][]): Ask {
  const all = messages.map(([entryId, role, text], msgIdx) => ({ msgIdx, role, text, entryId, kind: "message", undone: false }));
  return (async (_method: string, { offset = 0, limit = 50 }: { offset?: number; limit?: number }) => {
    const page = all.slice(offset, offset + Math.min(limit, 7));
    return { total: all.length, messages: page, nextOffset: offset + page.length < all.length ? offset + page.length : null };
  }) as unknown as Ask;
}

test("entries of the context in its order, and nothing else", async () => {
  const ask = daemon([["1", "user", "gone"], ["2", "user", " kept "], ["3", "summary", "what was"], ["4", "assistant", ""], ["5", "custom", "note"], ["6", "assistant", "yes"]]);
  const read = await readConversation(ask, "x", ["3", "2", "4", "5", "6"]);
  assert.equal(read.text, "Summary of what was before: what was\n\nUser: kept\n\nAssistant: yes");
  assert.deepEqual([read.isCut, read.upTo, read.lastId, read.prompts], [false, 5, "6", [1]]);
  assert.equal((await readConversation(ask, "x", [])).text, "");
});

test("of more than fits its beginning and the newest", async () => {
  const long = Array.from({ length: 40 }, (_, index): [string, string, string] => [`${index}`, index % 2 ? "assistant" : "user", `${index} ${"é".repeat(2_000)}`]);
  for (const ids of [undefined, long.map(([id]) => id)]) {
    const read = await readConversation(daemon(long), "x", ids);
    assert.ok(read.isCut);
    assert.ok(Buffer.byteLength(read.text) <= MAX_BYTES && Buffer.byteLength(read.text) > MAX_BYTES - 10);
    assert.match(read.text, /^User: 0 é+\n\n\[\.\.\.\]\né*/);
    assert.ok(read.text.includes("Assistant: 39 é"));
    assert.deepEqual([read.upTo, read.prompts.includes(38), read.prompts.includes(0)], [39, true, false]);
  }
});

test("whatever is cut, it is text, and no more than fits", () => {
  for (const parts of [["é".repeat(40_000)], ["a", "語".repeat(30_000)], ["😀".repeat(10_000), "😀".repeat(20_000)], ["x".repeat(MAX_BYTES - 2), "y"]]) {
    const { text, isCut } = fitted(parts);
    assert.ok(isCut && Buffer.byteLength(text) <= MAX_BYTES && !text.includes("\ufffd"), text.slice(0, 20));
  }
  assert.deepEqual(fitted(["a", "b"]), { text: "a\n\nb", isCut: false });
});

// -- answers that are long or hostile (others: tests/pi/test_package.py, as sesamectl judges them)

test("no answer takes long, or is anything but an entry or a refusal", () => {
  const begun = performance.now();
  for (const output of ['{"a": '.repeat(50_000), "{".repeat(200_000), `{"${'\\"'.repeat(100_000)}`, '"'.repeat(100_001)]) assert.throws(() => parseAnswer(output), AnswerError);
  assert.ok(performance.now() - begun < 20_000);
});

// -- the document beside pi's sessions

const META = { sessionId: "a", sessionFile: "/a.jsonl", parentSessionFile: undefined, name: "Plums", description: "About plums.", summary: "They stand.", tags: ["garden"], cwd: "/", updatedAt: "2026-03-02T00:00:00.000Z", model: "a/b", lastIndexedLeafId: "7" };

test("it is written as a whole, and the newer one wins", () => {
  const path = metaPath(place(), "../a");
  assert.ok(path.endsWith("sessions-meta/a.meta.json"));
  assert.equal(readMeta(path), undefined);
  assert.ok(writeMeta(path, { ...META, parentSessionFile: "/p.jsonl" }));
  const names = "sessionId sessionFile parentSessionFile name description summary tags cwd createdAt updatedAt model lastIndexedLeafId";
  assert.deepEqual(Object.keys(JSON.parse(readFileSync(path, "utf8"))).join(" "), names);
  assert.ok(!writeMeta(path, { ...META, name: "older", updatedAt: "2026-03-01T00:00:00.000Z" }));
  assert.ok(writeMeta(path, { ...META, name: "newer", updatedAt: "2026-03-03T00:00:00.000Z" }));
  const kept = readMeta(path);
  assert.ok(typeof kept === "object" && kept.name === "newer" && kept.createdAt === META.updatedAt);
  assert.deepEqual(readdirSync(join(path, "..")), ["a.meta.json"]);
});

test("one that is corrupt counts as none", () => {
  const path = metaPath(place(), "a");
  mkdirSync(join(path, ".."));
  for (const text of ["", "{", "[]", '"x"', JSON.stringify({ ...META }), JSON.stringify({ ...META, createdAt: "x", updatedAt: "soon" }), JSON.stringify({ ...META, createdAt: "x", tags: [1] }), JSON.stringify({ ...META, createdAt: "x", updatedAt: "2999-01-01T00:00:00.000Z" })]) {
    writeFileSync(path, text);
    assert.equal(typeof readMeta(path), "string", text);
  }
  assert.ok(writeMeta(path, META));
  assert.equal((readMeta(path) as { createdAt: string }).createdAt, META.updatedAt);
});

test("a place that cannot be written to is left as it was", () => {
  const path = metaPath(place(), "a");
  mkdirSync(path, { recursive: true });
  assert.throws(() => writeMeta(path, META));
  assert.deepEqual(readdirSync(join(path, "..")), ["a.meta.json"]);
});

test("what session-index would not take for whole is cut, and nothing in it is unseen", () => {
  const path = metaPath(place(), "a");
  writeMeta(path, { ...META, name: `a\n\x1b[31m${"x".repeat(300)}`, description: "é".repeat(2_000), tags: Array(30).fill("t".repeat(100)) });
  const { name, description, tags } = readMeta(path) as { name: string; description: string; tags: string[] };
  assert.deepEqual([name.length, name.slice(0, 3), description.length, tags.length, tags[0]?.length], [120, "a x", 1_200, 12, 80]);
});

// -- what a day may cost

const lines = (directory: string) => readdirSync(directory).flatMap((name) => readFileSync(join(directory, name), "utf8").trim().split("\n").map((line) => JSON.parse(line) as { usd: number }));

test("a call is made if what it may cost is left, whichever pi has spent the rest", () => {
  const directory = place();
  const [one, other] = [new Budget(directory, 10), new Budget(directory, 10)];
  const settle = one.reserve(0.06);
  assert.throws(() => other.reserve(0.06), SpentError);
  settle(0.01);
  other.reserve(0.06)(0.06);
  one.reserve(0.03); // never settled: it counts as what it may have cost
  assert.throws(() => other.reserve(0.001), /today's budget of 10 cents \(budgetCents\) does not allow another call/);
  assert.equal(Math.round(lines(directory).reduce((sum, { usd }) => sum + usd, 0) * 1000), 100);
});

test("a model without a price is asked, but not for nothing at all", () => {
  new Budget(place(), 1).reserve(0)(0);
  assert.throws(() => new Budget(place(), 0).reserve(0), SpentError);
});

test("what has come to nothing is passed over for a month", () => {
  const [directory, month] = [place(), 30 * 24 * 3_600_000];
  const file = (age: number) => join(directory, `session-index.spent-${day(new Date(Date.now() - age).toISOString())}.jsonl`);
  writeFileSync(file(month - 1e8), '{"useless": "lately"}\n');
  writeFileSync(file(month + 1e8), '{"useless": "long ago"}\n');
  const budget = new Budget(directory, 10);
  assert.deepEqual([budget.claim("lately", 9), budget.claim("a", 9), budget.claim("long ago", 9)], [false, true, true]);
  budget.giveUp("b");
  assert.deepEqual([budget.claim("b", 9), readdirSync(directory).length], [false, 2]);
});

test("what other days have cost does not count, and half a line is passed over", () => {
  const directory = place();
  writeFileSync(join(directory, "session-index.spent-2020-01-01.jsonl"), '{"usd": 9}\n');
  const budget = new Budget(directory, 10);
  budget.reserve(0.04)(0.04);
  const [file, ...none] = readdirSync(directory);
  assert.deepEqual(none, []);
  appendFileSync(join(directory, String(file)), '\n[1]\n{"usd": "a lot"}\n{"us');
  budget.reserve(0.06)(0.06);
  assert.throws(() => budget.reserve(0.01), SpentError);
});

test("an older session is somebody's once, and there are only so many a day", () => {
  const directory = place();
  const [one, other] = [new Budget(directory, 10), new Budget(directory, 10)];
  assert.deepEqual([one.claim("a", 2), other.claim("a", 2), other.claim("b", 2), one.claim("c", 2), one.claim("c", 3)], [true, false, true, false, true]);
});

test("older sessions come with what their files say, without those whose file is gone", async () => {
  const directory = place();
  const path = join(directory, "a.jsonl");
  writeFileSync(path, `${JSON.stringify({ type: "session", id: "a", parentSession: "/p.jsonl", cwd: "/elsewhere" })}\n`);
  const session = (sessionId: string, rest: object = {}) => ({ sessionId, path, cwd: "/here", gone: false, ...rest });
  const given: object[] = [];
  const ask = (async (_method: string, params: object) => {
    given.push(params);
    return { total: 3, sessions: [session("a"), session("gone", { gone: true }), session("b~2", { path: "/nowhere", cwd: null }), session("c")] };
  }) as unknown as Ask;
  const found = [];
  for await (const subject of due(ask, "own", new Budget(directory, 1), 2, new AbortController().signal)) found.push([subject.sessionId, subject.nativeId, subject.parent, subject.cwd]);
  assert.deepEqual(found, [["pi:a", "a", "/p.jsonl", "/here"], ["pi:b~2", undefined, undefined, ""]]);
  assert.deepEqual(given, [{ needsMemory: true, source: "pi", exclude: ["own"], limit: 22 }]);
});
