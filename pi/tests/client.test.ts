import assert from "node:assert/strict";
import { chmodSync, linkSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { call, RpcError, Unreachable } from "../sesame/client.ts";
import { Place, reply } from "./server.ts";

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(() => place.close());

test("a result, asked for as JSON-RPC on one line", async () => {
  await place.listen((socket, request) => socket.write(reply(request, { result: { seen: request.params } })));
  assert.deepEqual(await call(place.path, "search", { query: "é\u2028\n" }), { seen: { query: "é\u2028\n" } });
  assert.deepEqual(place.requests, [{ jsonrpc: "2.0", id: 1, method: "search", params: { query: "é\u2028\n" } }]);
});

test("an answer that comes byte by byte, with characters astride and U+2028 inside", async () => {
  const text = "ü\u2028語🦆";
  await place.listen((socket, request) => {
    for (const byte of Buffer.from(reply(request, { result: { text } }))) socket.write(Buffer.from([byte]));
  });
  assert.deepEqual(await call(place.path, "search", {}), { text });
});

test("notifications before the answer are passed over", async () => {
  await place.listen((socket, request) => socket.write(`{"jsonrpc":"2.0","method":"progress","params":{}}\n${reply(request, { result: { late: 1 } })}`));
  assert.deepEqual(await call(place.path, "index", {}), { late: 1 });
});

test("a JSON-RPC error keeps its code, message and data", async () => {
  await place.listen((socket, request) => socket.write(reply(request, { error: { code: 2, message: "fits 2", data: { candidates: ["a", "b"] } } })));
  await assert.rejects(call(place.path, "resolve_session", {}), (error) => {
    assert(error instanceof RpcError);
    assert.deepEqual([error.code, error.message, error.data], [2, "fits 2", { candidates: ["a", "b"] }]);
    return true;
  });
});

test("no socket, a stale one, and a file in its place are nobody", async () => {
  await assert.rejects(call(place.path, "hello", {}), Unreachable);
  await assert.rejects(call(join(place.directory, "none/sesamed.sock"), "hello", {}), Unreachable);
  const refusing = createServer();
  await new Promise<void>((listening) => refusing.listen(place.path, listening));
  const path = `${place.path}.stale`;
  linkSync(place.path, path); // stays when its server is gone
  await new Promise((closed) => refusing.close(closed));
  await assert.rejects(call(path, "hello", {}), Unreachable);
  writeFileSync(place.path, "");
  await assert.rejects(call(place.path, "hello", {}), Unreachable);
});

test("a directory that others may enter gets nothing", async () => {
  await place.listen((socket, request) => socket.write(reply(request, { result: {} })));
  chmodSync(place.directory, 0o755);
  await assert.rejects(call(place.path, "hello", {}), /only you can open.*sesamectl doctor/);
  assert.deepEqual(place.requests, []);
});

test("a path that no system takes says so", async () => {
  await assert.rejects(call(`/tmp/${"x".repeat(100)}`, "hello", {}), /socket path too long.*set SESAME_SOCKET/);
});

test("closing in mid-answer is an error, not a wait", async () => {
  await place.listen((socket) => socket.end('{"jsonrpc":"2.0","id":1,"resu'));
  await assert.rejects(call(place.path, "search", {}), /closed the connection before it answered/);
});

test("closing at once is an error too", async () => {
  await place.listen((socket) => socket.destroy());
  await assert.rejects(call(place.path, "search", {}), /closed the connection before it answered/);
});

test("silence ends with the deadline", async () => {
  await place.listen(() => {});
  await assert.rejects(call(place.path, "search", {}, { timeoutMs: 50 }), /did not answer search within 0.05 s; try again, or `sesamectl restart`/);
});

test("an abort ends the call, and the daemon sees it", async () => {
  const control = new AbortController();
  const gone = new Promise<void>((ended) => {
    void place.listen((socket: Socket) => {
      socket.on("close", () => ended());
      control.abort();
    }).then(() => call(place.path, "search", {}, { signal: control.signal }).then(() => assert.fail("answered"), (error: Error) => assert.match(error.message, /aborted/)));
  });
  await gone;
});

test("an abort before the call sends nothing", async () => {
  await place.listen(() => {});
  await assert.rejects(call(place.path, "search", {}, { signal: AbortSignal.abort() }), /aborted/);
  assert.deepEqual(place.requests, []);
});

test("an answer without end is cut off", async () => {
  await place.listen((socket) => {
    const more = (): void => void (socket.writable && socket.write("x".repeat(65_536), () => setImmediate(more)));
    more();
  });
  await assert.rejects(call(place.path, "search", {}, { maxBytes: 1 << 20 }), /a line of more than 1048576 bytes/);
});

test("a large answer within the bound comes whole", async () => {
  const text = "語".repeat(1_000_000);
  await place.listen((socket, request) => socket.write(reply(request, { result: { text } })));
  assert.deepEqual(await call(place.path, "search", {}), { text });
});

for (const [what, answer] of Object.entries({ "not JSON": "HTTP/1.1 400 Bad Request", "another protocol": '{"ok":true}', neither: '{"jsonrpc":"2.0","id":1}', "a list": "[]" }))
  test(`another program: ${what}`, async () => {
    await place.listen((socket) => socket.write(`${answer}\n`));
    await assert.rejects(call(place.path, "search", {}), /does not speak sesame's protocol; set SESAME_SOCKET/);
  });

test("an answer to another question is refused; an error that was found before the id is not", async () => {
  await place.listen((socket) => socket.write('{"jsonrpc":"2.0","id":7,"result":{"foreign":1}}\n'));
  await assert.rejects(call(place.path, "search", {}), /does not speak sesame's protocol/);
});

test("an error without an id is an answer", async () => {
  await place.listen((socket) => socket.write('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}\n'));
  await assert.rejects(call(place.path, "search", {}), (error) => error instanceof RpcError && error.code === -32700);
});
