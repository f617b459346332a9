/** Text that others wrote, made fit to be shown and quoted; dates that mean the same tomorrow. Pure. */

// What a terminal obeys (CSI, strings that end in ST or BEL, other escapes) and what is not seen, or turns others around: both as in
// sesamed/sanitize.py; a test holds them equal.
const SEQUENCES = /(?:\x1b\[|(?<![\x80-\xff])\x9b)[0-?]*[ -/]*(?:[@-~]|(?=\x1b)|$)|(?:\x1b[\]PX^_]|(?<![^\x00-\x7f])[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]/g;
const LINE_ENDS = "\n\r\v\f\x85\u2028\u2029";
const BREAKS = /\r\n?|[\v\f\x85\u2028\u2029]/g;
const HIDDEN =
  /[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const HALVES = /[\ud800-\udfff]/gu; // of pairs, which no encoding can say
const UNSEEN = new RegExp(`${HIDDEN.source}|[\\u2028\\u2029]`, "gu");
const [MARK, TAB] = ["> ", "  "];
const PLAIN = /^[\p{L}\p{N}_./~@:+=#-]+…?$/u;

/** Without anything that a terminal obeys, reorders or hides; of white space, blanks and line ends stay. */
export function clean(text: string): string {
  return whole(text.replace(SEQUENCES, "").replace(BREAKS, "\n").replace(HIDDEN, "").replace(/\t/g, TAB));
}

/** Without halves of surrogate pairs, which are no text to anybody else. */
export function whole(text: string): string {
  return text.replace(HALVES, "\ufffd");
}

/** On one line. */
export function line(text: string): string {
  return clean(text).replace(/\s+/g, " ").trim();
}

/** At most so many characters. */
export function cut(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const kept = [...text.slice(0, 2 * characters)];
  return kept.length <= characters && kept.join("").length === text.length ? text : `${kept.slice(0, characters - 1).join("")}…`;
}

/** How somebody else calls something, within a line of ours: cut, and in quotes unless it is one plain word. */
export function word(text: string, characters = 200): string {
  const short = cut(line(text), characters);
  return PLAIN.test(short) ? short : JSON.stringify(short);
}

/** A value as JSON that says exactly what it is, with nothing in it that cannot be seen. */
export function json(value: unknown): string {
  return JSON.stringify(value).replace(UNSEEN, (found) => found.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
}

/** How many characters, as Python and the daemon count them. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Every line marked as somebody else's words. */
export function quoted(text: string): string {
  return text
    .split("\n")
    .map((one) => (MARK + one).trimEnd())
    .join("\n");
}

/** At most how long the text is when it is cleaned and quoted. */
export function quotedLength(text: string): number {
  let length = MARK.length;
  for (const unit of text) length += costOf(unit);
  return length;
}

/** How many characters of the text fit when they are cleaned and quoted. */
export function fitting(text: string, room: number): number {
  let [count, left] = [0, room - MARK.length];
  for (const unit of text) {
    left -= costOf(unit);
    if (left < 0) break;
    count += 1;
  }
  return count;
}

function costOf(character: string): number {
  if (character === "\t") return TAB.length;
  return LINE_ENDS.includes(character) ? 1 + MARK.length : character.length;
}

/** A time of the wire as a local date: `2026-03-01`. */
export function day(time: string | null | undefined): string {
  return minute(time).slice(0, 10);
}

/** A time of the wire as local date and time: `2026-03-01 09:30`. */
export function minute(time: string | null | undefined): string {
  const moment = new Date(time ?? Number.NaN);
  if (Number.isNaN(moment.getTime())) return "?";
  const two = (number: number) => String(number).padStart(2, "0");
  const date = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${date} ${two(moment.getHours())}:${two(moment.getMinutes())}`;
}
