import assert from "node:assert/strict";
import { test } from "node:test";
import { Lines, TooLong } from "../sesame/lines.ts";

const PIECES = ["\n", "a", "é", "語", "🦆", "\u2028", "\r\n", "{}", "\x85", ""];

/** Numbers that look random and are the same every time. */
function* numbers(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    yield state >>> 8;
  }
}

test("however the bytes are cut, the lines are the same", () => {
  const random = numbers(1);
  const next = (below: number): number => (random.next().value as number) % below;
  for (let round = 0; round < 300; round++) {
    const text = Array.from({ length: next(40) }, () => PIECES[next(PIECES.length)]).join("");
    const bytes = Buffer.from(text);
    const lines = new Lines(1_000);
    const found: string[] = [];
    for (let from = 0; from < bytes.length; ) {
      const to = from + 1 + next(5);
      found.push(...lines.push(bytes.subarray(from, to)));
      from = to;
    }
    assert.deepEqual(found, text.split("\n").slice(0, -1), JSON.stringify(text));
  }
});

test("a line may have as many bytes as allowed, and no more", () => {
  assert.deepEqual(new Lines(4).push(Buffer.from("abcd\nab\n")), ["abcd", "ab"]);
  assert.throws(() => new Lines(4).push(Buffer.from("abcde\n")), TooLong);
  const lines = new Lines(4);
  lines.push(Buffer.from("abc"));
  assert.throws(() => lines.push(Buffer.from("de")), TooLong);
});
