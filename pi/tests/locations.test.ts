import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { clientProgram, isPrivate, socketPath } from "../sesame/locations.ts";

test("the environment says, or the user", () => {
  assert.equal(socketPath({ SESAME_SOCKET: "/x/s", SESAME_RUNTIME_DIR: "/y" }), "/x/s");
  assert.equal(socketPath({ SESAME_RUNTIME_DIR: "/y" }), "/y/sesamed.sock");
  const runtime = `/run/user/${userInfo().uid}`;
  const usual = isPrivate(runtime) ? `${runtime}/sesame` : `${userInfo().homedir}/.local/state/sesame/run`;
  assert.equal(socketPath({ HOME: "/elsewhere", XDG_RUNTIME_DIR: "/elsewhere" }), `${usual}/sesamed.sock`);
});

test("a program beside the package's own installation is taken before that of the PATH", (context) => {
  const prefix = mkdtempSync(join(tmpdir(), "sesame-"));
  context.after(() => rmSync(prefix, { recursive: true }));
  const here = join(prefix, "lib/python3.12/site-packages/sesamectl/pi/sesame/");
  assert.equal(clientProgram({}, here), "sesamectl");
  mkdirSync(join(prefix, "bin"));
  writeFileSync(join(prefix, "bin/sesamectl"), "");
  assert.equal(clientProgram({}, here), join(prefix, "bin/sesamectl"));
  assert.equal(clientProgram({ SESAMECTL: "/mine" }, here), "/mine");
});
