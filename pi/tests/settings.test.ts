import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DEFAULTS, readSettings, settingsFile } from "../sesame/settings.ts";

function chosen(text?: string): () => unknown {
  const directory = mkdtempSync(join(tmpdir(), "settings-"));
  if (text !== undefined) writeFileSync(settingsFile(directory), text);
  return () => readSettings(directory);
}

test("without a file no model is chosen", () => {
  assert.deepEqual(chosen()(), DEFAULTS);
  assert.deepEqual(DEFAULTS.modelKeys, []);
});

test("what is given counts, and the rest is as usual", () => {
  const given = { modelKeys: ["google/gemini-flash-latest", "openrouter/a/b"], minNewUserMessages: 3, budgetCents: 0.5, waitInPrintMode: true };
  assert.deepEqual(chosen(`\ufeff${JSON.stringify(given)}`)(), { ...DEFAULTS, ...given });
});

const WRONG: [string, RegExp][] = [
  ["{", /session-index\.config\.json is not valid JSON: /],
  ["[]", /config\.json: expected an object with any of commandName, statusKey, /],
  ['{"modelKeys": ["haiku"]}', /config\.json: modelKeys: expected a list of models such as \["provider\/model"\]/],
  ['{"modelKeys": "a/b"}', /modelKeys: expected/],
  ['{"modelKey": ["a/b"]}', /there is no setting "modelKey"; there are commandName/],
  ['{"__proto__": {"budgetCents": 1}}', /there is no setting "__proto__"/],
  ['{"toString": 1}', /there is no setting "toString"/],
  ['{"minNewUserMessages": 0}', /minNewUserMessages: expected a whole number from 1 to 1000/],
  ['{"minNewUserMessages": "5"}', /minNewUserMessages: expected/],
  ['{"backfill": 1.5}', /backfill: expected a whole number/],
  ['{"budgetCents": -1}', /budgetCents: expected a number from 0 to 100000/],
  ['{"commandName": "/index"}', /commandName: expected a command's name/],
  ['{"waitInPrintMode": 1}', /waitInPrintMode: expected true or false/],
];

for (const [text, why] of WRONG) test(`refused: ${text}`, () => assert.throws(chosen(text), why));

test("a file that cannot be read is no choice either", () => {
  const directory = mkdtempSync(join(tmpdir(), "settings-"));
  mkdirSync(settingsFile(directory));
  assert.throws(() => readSettings(directory), /cannot read .*session-index\.config\.json: EISDIR/);
});
