/**
 * Texts that others wrote, and prompts, are looked at in linear time: pi does nothing else meanwhile. Each text would take
 * minutes with a pattern that is quadratic on it. Nothing is timed: such a test would simply not end.
 */
import { test } from "node:test";
import { slug, typed } from "../sesame/completion.ts";
import { asked, completions } from "../sesame/asked.ts";
import { page as pageOf } from "../sesame/page.ts";
import { isExact, isReference, references, toldOf } from "../sesame/references.ts";
import { filters } from "../sesame/schema.ts";
import { clean, cut, fitting, json, line, quoted, quotedLength, word } from "../sesame/text.ts";
import type { Message, Page } from "../sesame/wire.ts";

const CHARACTERS = 1 << 18;
const page = (text: string): Page => ({ sessionId: text, total: 1, nextOffset: null, messages: [{ msgIdx: 0, role: "user", kind: "message", toolName: text, isError: null, timestamp: null, text, truncated: false } satisfies Message] });
const LOOKS: Record<string, (text: string) => unknown> = {
  clean, line, quoted, quotedLength, word, json, slug, typed, isReference, references,
  cut: (text) => cut(text, 100),
  fitting: (text) => fitting(text, 20_000),
  filters: (text) => filters({ cwd: text, path: text, tool: text }, "/p"),
  prompt: (text) => references(`@@a${text}x @@b`),
  sentence: (text) => references(`see @@a${text}`),
  asked: (text) => { try { return asked(text); } catch { return undefined; } },
  completions: (text) => completions(text, [text]),
  block: (text) => toldOf([{ type: "message", message: { role: "user", content: text } }]),
  meant: (text) => isExact(text, { sessionId: text, name: text }),
  told: (text) => toldOf([{ type: text }]),
  page: (text) => pageOf(page(text), undefined, { reads: "read_session", budget: 20_000 }),
};
const TOKENS = [
  "\x9d", "\x90", "\x9b", "\x9b0", "\x1b", "\x1b]", "\x1b[", "\x1b[0", "\x1b[0 ", "\x1b ", "\x1bP\x1b", "\r", "\r\n", "\u2028", "\t", " ", "\n", "\u200b", "\ud800", "🦆", "é\x9d",
  "@", "@@", "@@@", "@@a", " @@a", "`", "`a", "``", "```", "```a\n", "`\n", ".", ".x", ")", "(", "[", "~", "~/", "0", "0h", "9999-", "a", "A", "-", "<", ">", "> ", '"', "\\", "1. ", "--a", "--cwd ", "path:", 'a"', "\n<sesame-reference ids=[", "]>\n",
];

for (const [name, look] of Object.entries(LOOKS))
  test(`any text is looked at in linear time: ${name}`, { timeout: 60_000 }, () => {
    for (const token of TOKENS) look(token.repeat(CHARACTERS / token.length));
  });
