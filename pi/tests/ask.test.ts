import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { asker, type Exec, way } from "../sesame/ask.ts";
import { RpcError } from "../sesame/client.ts";
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

const echo = () => place.listen((socket, request) => socket.write(reply(request, { result: { method: request.method } })));

test("while the daemon runs nothing is started", async () => {
  await echo();
  const how = way();
  assert.deepEqual(await asker(exec(), how)("search", { query: "a" }), { method: "search" });
  assert.deepEqual([how.via, how.started, ran], ["socket", false, []]);
});

test("when nothing listens, sesamectl starts the daemon, and what is on disk is read first", async () => {
  const how = way();
  const starting: Exec = async (command, args) => {
    await echo();
    return exec({ stdout: JSON.stringify({ running: true, socket: place.path }) })(command, args, {});
  };
  const ask = asker(starting, how);
  assert.deepEqual(await ask("search", { query: "a" }), { method: "search" });
  assert.deepEqual(ran, [["sesamectl-of-the-test", "start", "--json"]]);
  assert.deepEqual(place.requests.map((one) => one.method), ["sync", "search"]);
  assert.deepEqual([how.via, how.started], ["socket", true]);
  await ask("list_sessions", {});
  assert.equal(ran.length, 1);
});

test("when the socket stays out of reach, sesamectl is asked", async () => {
  const how = way();
  const ask = asker(exec({}, { stdout: '{"resultCount":0}' }, { stdout: '{"session":{"a":1},"messages":{"b":2}}' }), how);
  const params = { query: "--help -x", exclude: ["one", "two"], limit: 3, fresh: true, tools: false };
  assert.deepEqual(await ask("search", params), { resultCount: 0 });
  assert.deepEqual(ran[1]?.slice(1), ["search", "--json", "--exclude=one", "--exclude=two", "--limit=3", "--fresh", "--", "--help -x"]);
  assert.equal(how.via, "sesamectl");
  assert.deepEqual(await ask("list_messages", { sessionId: "-id", around: 4 }), { b: 2 });
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
