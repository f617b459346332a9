import assert from "node:assert/strict";
import { homedir } from "node:os";
import { test } from "node:test";
import { chooseTools, counted, filters, LIST, most, READ, SEARCH } from "../sesame/schema.ts";
import { zone } from "../sesame/zone.ts";

test("directories are meant from where the session runs", () => {
  assert.deepEqual(filters({ cwd: "." }, "/p/q"), { cwd: "/p/q" });
  assert.deepEqual(filters({ cwd: "../r" }, "/p/q"), { cwd: "/p/r" });
  assert.deepEqual(filters({ cwd: "~/x" }, "/p"), { cwd: `${homedir()}/x` });
});

test("only known fields go out, and empty ones are none", () => {
  assert.deepEqual(filters({ query: "x", limit: 3, role: "user", tool: "", path: undefined, nope: 1 }, "/p"), { role: "user" });
});

test("where to look, and whose sessions, are filters", () => {
  const given = { scope: "both", person: "anna", workstation: "0a1b2c3d", project: "acme/app" };
  assert.deepEqual(filters({ query: "x", ...given }, "/p"), given);
});

test("times go out as they are, with the zone in which they are meant", () => {
  const times = { after: "7d", before: "2026-03-01T00:00Z", on: "last week" };
  assert.deepEqual(filters(times, "/p"), { ...times, timeZone: zone() });
});

test("the zone is the machine's, or the one that this process has", () => {
  const here = zone({ TZ: "" });
  assert.match(here, /^[+-]\d\d:\d\d$/);
  assert.deepEqual(["Europe/Berlin", ":Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", "Europe", "CET-1CEST", "../x"].map((TZ) => zone({ TZ })), ["Europe/Berlin", "Europe/Berlin", "Europe/Berlin", here, here, here]);
  assert.equal(zone({}), "local");
});

test("the schemas are closed and say what each field is", () => {
  for (const schema of [SEARCH, LIST, READ]) {
    assert.equal(schema.additionalProperties, false);
    for (const [name, property] of Object.entries(schema.properties)) assert((property as { description?: string }).description, name);
  }
});

test("a tool is its families, if it is in some", () => {
  const families = { shell: ["bash", "exec_command"], edit: ["apply_patch"], write: ["apply_patch", "Write"] };
  const chosen = (tool?: string) => chooseTools({ cwd: "/p", tool }, families);
  assert.deepEqual(chosen("shell"), { cwd: "/p", toolFamily: ["shell"] });
  assert.deepEqual(chosen("Bash"), { cwd: "/p", toolFamily: ["shell"] });
  assert.deepEqual(chosen("apply_patch"), { cwd: "/p", toolFamily: ["edit", "write"] });
  assert.deepEqual(chosen("write"), { cwd: "/p", toolFamily: ["write"] });
  assert.deepEqual(chosen("=bash"), { cwd: "/p", tool: "bash" });
  assert.deepEqual(chosen("todo"), { cwd: "/p", tool: "todo" });
  assert.deepEqual(chosen(undefined), { cwd: "/p" });
});

test("a number beyond the bounds is meant as the nearest", () => {
  assert.deepEqual([{}, { limit: 50 }, { limit: 0 }, { limit: -3 }].map((given) => most(given, "search")), [8, 20, 1, 1]);
  assert.deepEqual([{ limit: 500 }, { offset: -5 }, { offset: -500 }, { offset: -5, limit: 2 }, { offset: -5, around: 3 }].map((given) => most(given, "read")), [50, 5, 50, 2, 20]);
  assert.deepEqual([undefined, -1, 7, "7"].map(counted), [0, 0, 7, 7]);
});
