import assert from "node:assert/strict";
import { test } from "node:test";
import { characters, clean, cut, day, fitting, json, line, minute, quoted, quotedLength, word } from "../sesame/text.ts";

test("nothing that a terminal obeys, reorders or hides is left", () => {
  assert.equal(clean("a\x1b[31mred\x1b[0m \x1b]0;title\x07b\x9b2Jc"), "ared bc");
  assert.equal(clean("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "link");
  assert.equal(clean("a\u202eb\u200bc\ufeffd\x00e\u{e0041}"), "abcde");
  assert.equal(clean("one\r\ntwo\u2028three\ttab"), "one\ntwo\nthree  tab");
  assert.equal(clean("half \ud83e of a pair, 🦆 whole"), "half \ufffd of a pair, 🦆 whole");
});

test("any code point comes out as something that cannot harm", () => {
  for (let code = 0; code <= 0x10ffff; code += code < 0x3000 ? 1 : 257) {
    const cleaned = clean(`a${String.fromCodePoint(code)}b`);
    assert.doesNotMatch(cleaned, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/u, code.toString(16));
    assert.doesNotMatch(line(cleaned), /\n/);
  }
});

test("a quotation marks every line, whatever ends it", () => {
  assert.equal(quoted(clean("one\u2028two\r\n\x85three")), "> one\n> two\n>\n> three");
});

test("cutting counts characters and leaves pairs whole", () => {
  assert.equal(cut("🦆🦆🦆", 3), "🦆🦆🦆");
  assert.equal(cut("🦆🦆🦆🦆", 3), "🦆🦆…");
  assert.equal(cut("abcdef", 4), "abc…");
  assert.equal(characters("a🦆語"), 3);
});

test("dates are absolute and local", () => {
  const moment = new Date(2026, 2, 1, 9, 5).toISOString();
  assert.equal(day(moment), "2026-03-01");
  assert.equal(minute(moment), "2026-03-01 09:05");
  assert.equal(minute(null), "?");
});

test("a name in a line of ours is one plain word, or in quotes", () => {
  for (const plain of ["main", "/code/infra", "feature/x-1", "~/a.b", "語"]) assert.equal(word(plain), plain);
  assert.equal(word("a; b"), '"a; b"');
  assert.equal(word('say "hi"\n'), '"say \\"hi\\""');
  assert.equal(word(""), '""');
  assert.equal(word("x".repeat(300), 10), "xxxxxxxxx…");
});

test("JSON that hides nothing says the same", () => {
  const value = { id: "a\u202e\u2028\x7f\u{e0041}🦆\ud800" };
  assert.match(json(value), /^[ -~🦆]+$/u);
  assert.deepEqual(JSON.parse(json(value)), value);
});

test("what fits is what is shown, tabs and marks included", () => {
  const text = "a\tb\n\u2028語🦆\r\n\v".repeat(50);
  for (let room = 2; room <= quotedLength(text); room += 7) {
    const count = fitting(text, room);
    assert(quoted(clean([...text].slice(0, count).join(""))).length <= room);
  }
  assert.equal(fitting(text, quotedLength(text)), characters(text));
});
