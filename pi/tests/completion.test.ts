import assert from "node:assert/strict";
import { test } from "node:test";
import { type Look, Names, provider, slug, typed } from "../sesame/completion.ts";
import { minute } from "../sesame/text.ts";
import type { Session } from "../sesame/wire.ts";

const session = (sessionId: string, name: string | null): Session => ({ sessionId, source: "pi", path: "", cwd: "/p", gitBranch: null, name, created: "", modified: "2026-03-01T12:00:00.000Z", messageCount: 1, gone: false, subagent: false });
const SESSIONS = [session("01aa", "Confirm button refactor"), session("02bb", "Retry logic"), session("03cc", "Retry logic"), session("04dd", null)];
const LIVE = new AbortController().signal;

function looking(found: Session[] = []): { names: Names; asked: [string, Record<string, unknown>][] } {
  const asked: [string, Record<string, unknown>][] = [];
  const look: Look = async <T>(method: string, params: object) => {
    asked.push([method, params as Record<string, unknown>]);
    return (method === "search" ? { results: found } : { sessions: SESSIONS }) as T;
  };
  return { names: new Names(look, "own", "/p"), asked };
}

const base = {
  triggerCharacters: ["#"],
  getSuggestions: async () => ({ prefix: "@x", items: [{ value: "file", label: "file" }] }),
  applyCompletion: () => ({ lines: ["theirs"], cursorLine: 0, cursorCol: 6 }),
  shouldTriggerFileCompletion: () => true,
};

test("what is a reference being typed", () => {
  assert.deepEqual(typed("see @@conf"), { prefix: "@@conf", everywhere: false, text: "conf" });
  assert.deepEqual(typed("@@@"), { prefix: "@@@", everywhere: true, text: "" });
  for (const none of ["@conf", "a@@conf", "@@conf done", "`@@conf", "@@@@x", "@@a@"]) assert.equal(typed(none), undefined, none);
  assert.equal(typed("`code` @@x")?.text, "x");
});

test("bare @@ lists the latest of this project, @@@ of everywhere; both leave the running one out", async () => {
  const { names, asked } = looking();
  const items = await names.suggest({ prefix: "@@", everywhere: false, text: "" }, LIVE);
  assert.deepEqual(items.map((item) => item.value), ["@@confirm-button-refactor", "@@02bb", "@@03cc", "@@04dd"]);
  assert.deepEqual([items[0]?.label, items[0]?.description, items[3]?.label], ["Confirm button refactor", `${minute(SESSIONS[0]!.modified)}  pi  1 message`, "04dd"]);
  await names.suggest({ prefix: "@@@", everywhere: true, text: "" }, LIVE);
  assert.deepEqual(asked.map(([method, params]) => [method, params.cwd, params.exclude]), [["list_sessions", "/p", ["own"]], ["list_sessions", undefined, ["own"]]]);
});

test("names first, then what was said; each session once; one list for many keys", async () => {
  const { names, asked } = looking([session("09zz", "Elsewhere"), SESSIONS[0]!]);
  const suggest = (text: string) => names.suggest({ prefix: `@@${text}`, everywhere: false, text }, LIVE);
  assert.deepEqual((await suggest("button-conf")).map((item) => item.value), ["@@confirm-button-refactor", "@@09zz"]);
  assert.deepEqual((await suggest("02")).map((item) => item.value)[0], "@@02bb");
  assert.deepEqual(asked.map(([method, params]) => [method, params.query]), [["list_sessions", undefined], ["search", "button conf*"], ["search", "02*"]]);
});

test("of everywhere an id is inserted: the project that it is typed in may have a session of that name", async () => {
  const items = await looking().names.suggest({ prefix: "@@@conf", everywhere: true, text: "conf" }, LIVE);
  assert.deepEqual(items.map((item) => [item.value, item.label]), [["@@01aa", "Confirm button refactor"]]);
  assert.equal(items[0]?.description, "2026-03-01  pi  /p");
});

test("a name that an id may begin with is none to insert, and an id that no reference can say is not offered", async () => {
  const sessions = [session("09aa", "Add"), session("retry-9", "Session"), session("session-7", "Feed the ducks"), session("a b", "Blank")];
  const names = new Names(async <T>(method: string) => (method === "search" ? { results: [] } : { sessions }) as T, "own", "/p");
  const items = await names.suggest({ prefix: "@@", everywhere: false, text: "" }, LIVE);
  assert.deepEqual(items.map((item) => item.value), ["@@09aa", "@@retry-9", "@@feed-the-ducks"]);
});

test("what is no reference stays with the provider underneath", async () => {
  const ours = provider(base, looking().names);
  assert.deepEqual(ours.triggerCharacters, ["#", "@"]);
  assert.equal((await ours.getSuggestions(["see @x"], 0, 6, { signal: LIVE }))?.items[0]?.value, "file");
  assert.equal(ours.applyCompletion(["@x"], 0, 2, { value: "v", label: "" }, "@x").lines[0], "theirs");
  assert.equal(ours.shouldTriggerFileCompletion?.(["@x"], 0, 2), true);
  assert.equal(ours.shouldTriggerFileCompletion?.(["@@x"], 0, 3), false);
});

test("a choice replaces what was typed, and a blank follows once", () => {
  const ours = provider(base, looking().names);
  assert.deepEqual(ours.applyCompletion(["no", "see @@co then"], 1, 8, { value: "@@name", label: "" }, "@@co"), { lines: ["no", "see @@name then"], cursorLine: 1, cursorCol: 11 });
  assert.deepEqual(ours.applyCompletion(["@@"], 0, 2, { value: "@@name", label: "" }, "@@"), { lines: ["@@name "], cursorLine: 0, cursorCol: 7 });
});

test("a choice from a list that is older than the last keys replaces those as well", () => {
  const ours = provider(base, looking().names);
  assert.deepEqual(ours.applyCompletion(["see @@plum"], 0, 10, { value: "@@name", label: "" }, "@@").lines, ["see @@name "]);
});

test("a daemon that fails, or an answer too late, suggests nothing and disturbs nobody", async () => {
  const failing = provider(base, new Names(() => Promise.reject(new Error("down")), "own", "/p"));
  assert.equal(await failing.getSuggestions(["@@x"], 0, 3, { signal: LIVE }), null);
  assert.equal(await provider(base, looking().names).getSuggestions(["@@"], 0, 2, { signal: AbortSignal.abort() }), null);
});

test("a name as a reference", () => {
  assert.equal(slug("Fix: the “Confirm” button (v2)!"), "fix-the-confirm-button-v2");
  assert.equal(slug("…"), "");
});
