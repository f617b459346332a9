import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { asker, type Exec, way } from "../sesame/ask.ts";
import { RpcError } from "../sesame/client.ts";
import { OURS } from "../sesame/version.ts";
import { Place, reply } from "./server.ts";

let place: Place;
let ran: string[][];
beforeEach(() => {
  place = new Place();
  ran = [];
  process.env.SESAME_SOCKET = place.path;
  process.env.SESAMECTL = "sesamectl-of-the-test";
  delete process.env.SESAME_NO_START;
});
afterEach(() => place.close());

const exec =
  (...ends: Partial<Awaited<ReturnType<Exec>>>[]): Exec =>
  async (command, args) => {
    ran.push([command, ...args]);
    return { stdout: "", stderr: "", code: 0, ...ends[ran.length - 1] };
  };

const FOUND = { results: [], words: [], corrected: {}, dropped: [], warnings: [], pending: {} };
const answering = (version?: string) => place.listen((socket, request) => socket.write(reply(request, { result: { ...FOUND, method: request.method, total: 0, sessions: [], ...(version && { version }) } })));
const asks = () => place.requests.map((one) => one.method);

test("while the daemon runs nothing is started", async () => {
  await answering();
  const how = way();
  assert.equal((await asker(exec(), how)<{ method: string }>("search", { query: "a" })).method, "search");
  assert.deepEqual([how.via, how.started, ran], ["socket", false, []]);
});

test("when nothing listens, sesamectl starts the daemon, and what is on disk is read first", async () => {
  const how = way();
  const starting: Exec = async (command, args) => {
    await answering();
    return exec({ stdout: JSON.stringify({ running: true, socket: place.path }) })(command, args, {});
  };
  const ask = asker(starting, how);
  assert.equal((await ask<{ method: string }>("search", { query: "a" })).method, "search");
  assert.deepEqual(ran, [["sesamectl-of-the-test", "start", "--json"]]);
  assert.deepEqual(asks(), ["sync", "search"]);
  assert.deepEqual([how.via, how.started], ["socket", true]);
  await ask("list_sessions", {});
  assert.equal(ran.length, 1);
});

const PAGE = { sessionId: "-id", total: 0, messages: [] };

test("when the socket stays out of reach, sesamectl is asked", async () => {
  const how = way();
  const ask = asker(exec({}, { stdout: JSON.stringify(FOUND) }, { stdout: JSON.stringify({ session: {}, messages: PAGE }) }), how);
  const params = { query: "--help -x", exclude: ["one", "two"], limit: 3, fresh: true, tools: false, on: "last week", timeZone: "local" };
  assert.deepEqual(await ask("search", params), FOUND);
  assert.deepEqual(ran[1]?.slice(1), ["search", "--json", "--exclude=one", "--exclude=two", "--limit=3", "--fresh", "--on=last week", "--plain", "--", "--help -x"]);
  assert.equal(how.via, "sesamectl");
  assert.deepEqual(await ask("list_messages", { sessionId: "-id", around: 4 }), PAGE);
  assert.deepEqual(ran[2]?.slice(1), ["show", "--json", "--around=4", "--", "-id"]);
  await assert.rejects(ask("set_session_meta", {}), /no command for set_session_meta/);
});

test("what the daemon refuses is never hidden behind another way", async () => {
  await place.listen((socket, request) => socket.write(reply(request, { error: { code: 5, message: "query too long" } })));
  await assert.rejects(asker(exec(), way())("search", { query: "a" }), (error) => error instanceof RpcError && error.code === 5);
  assert.deepEqual(ran, []);
});

test("a daemon that dies in mid-answer is not asked for another way", async () => {
  await place.listen((socket) => socket.destroy());
  await assert.rejects(asker(exec(), way())("search", { query: "a" }), /closed the connection/);
  assert.deepEqual(ran, []);
});

for (const stderr of ["", "spawn sesamectl ENOENT"])
  test(`without sesamectl the error says what to install (${stderr || "a silent pi"})`, async () => {
    await assert.rejects(asker(exec({ code: 1, stderr }), way())("search", {}), /nothing listens at .*no `sesamectl-of-the-test` to start sesamed; install sesame/);
  });

test("a start that fails says why", async () => {
  const failing = exec({ code: 3, stderr: "sesamectl: sesamed could not be started (exit 78): config.jsonc: line 3\n" });
  await assert.rejects(asker(failing, way())("search", {}), /could not be started: sesamectl: .*config.jsonc: line 3$/);
});

test("SESAME_NO_START is heeded", async () => {
  process.env.SESAME_NO_START = "1";
  await assert.rejects(asker(exec(), way())("search", {}), /SESAME_NO_START is set/);
  assert.deepEqual(ran, []);
});

test("an older daemon is restarted by sesamectl, once, before the first question", async () => {
  await answering("0.0.9");
  const ask = asker(exec(), way());
  await ask("search", {});
  await ask("search", {});
  assert.deepEqual(ran, [["sesamectl-of-the-test", "list", "--json", "--limit=1"]]);
  assert.deepEqual(asks(), ["hello", "search", "search"]);
});

for (const [version, what] of [[OURS, "the same"], ["99.0.0", "a newer one"], ["strange", "one that counts otherwise"]])
  test(`a daemon of ${what} is left alone`, async () => {
    await answering(version);
    await asker(exec(), way())("search", {});
    assert.deepEqual(ran, []);
  });

test("an older daemon is left alone where nothing may be started", async () => {
  process.env.SESAME_NO_START = "1";
  await answering("0.0.9");
  await asker(exec(), way())("search", {});
  assert.deepEqual(ran, []);
});

for (const [version, said] of [["0.0.9", /unknown field `x`; sesamed 0.0.9 runs, and this package is of .*: `sesamectl restart`$/], ["99.0.0", /newer than this package, .*update it \(`pi update`\)$/], [OURS, /unknown field `x`$/]] as const)
  test(`what a daemon of version ${version} does not know, is told with what to do`, async () => {
    await place.listen((socket, request) => socket.write(reply(request, request.method === "hello" ? { result: { version } } : { error: { code: -32602, message: "search: unknown field `x`" } })));
    await assert.rejects(asker(exec(), way())("search", {}), said);
  });

const SESSION = { sessionId: "a", source: "pi", created: "", modified: "", messageCount: 1 };
for (const [method, result, said] of [
  ["search", {}, /no results/],
  ["search", { ...FOUND, results: [{ ...SESSION, score: null }] }, /results without score/],
  ["list_sessions", { total: 1, sessions: [null] }, /sessions without object/],
  ["list_messages", { ...PAGE, messages: [{ msgIdx: 0 }] }, /messages without role/],
  ["get_session_meta", { sessionId: 7 }, /no sessionId/],
] as const)
  test(`an answer to ${method} that is none is no TypeError: ${said.source}`, async () => {
    await place.listen((socket, request) => socket.write(reply(request, { result })));
    await assert.rejects(asker(exec(), way())(method, {}), (error: Error) => said.test(error.message) && /`sesamectl restart`/.test(error.message));
  });
