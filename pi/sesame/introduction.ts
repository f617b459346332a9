/** What a session is, in a few lines for the model: its summary, or how it began and ended. */
import type { Ask } from "./ask.ts";
import { about, annotations, name, QUOTED, reading } from "./present.ts";
import { clean, cut, line, quoted } from "./text.ts";
import type { Message, Meta, Page } from "./wire.ts";

const ALL_CHARACTERS = 14_000; // of what is quoted for one prompt, however many sessions it names: with the lines around it 20,000
const QUOTE_CHARACTERS = 2_000;
const FIRST = 30; // messages among which the first prompt is
const LAST = 60; // and the last answer

/** A session, by the reference that stands for it in the prompt. */
export interface Named {
  reference: string;
  meta: Meta;
}

/** All sessions that a prompt names. */
export async function introductions(ask: Ask, named: Named[], reads: string, signal?: AbortSignal): Promise<string[]> {
  const room = Math.min(QUOTE_CHARACTERS, Math.floor(ALL_CHARACTERS / (2 * Math.max(1, named.length))));
  const texts: string[] = [];
  for (const one of named) texts.push(await introduced(ask, one, reads, room, signal));
  return texts;
}

async function introduced(ask: Ask, { reference, meta }: Named, reads: string, room: number, signal?: AbortSignal): Promise<string> {
  const quotes = meta.summary ? [["Its summary", meta.summary] as const] : await ends(ask, meta.sessionId, signal);
  return [
    `@@${line(reference)} is the past session ${name(meta)}`,
    about(meta),
    ...annotations(meta, "summary"),
    QUOTED,
    ...quotes.flatMap(([what, text]) => [`${what}:`, quoted(cut(clean(text).trim(), room))]),
    `Read it with ${reading(reads, meta)}.`,
  ].join("\n");
}

async function ends(ask: Ask, sessionId: string, signal?: AbortSignal): Promise<(readonly [string, string])[]> {
  const begin = await ask<Page>("list_messages", { sessionId, offset: 0, limit: FIRST }, signal);
  const end = begin.total <= FIRST ? begin : await ask<Page>("list_messages", { sessionId, offset: Math.max(0, begin.total - LAST), limit: LAST }, signal);
  const prompt = begin.messages.find((one) => is(one, "user"));
  const answer = end.messages.findLast((one) => is(one, "assistant"));
  return [...(prompt ? [["The first prompt", prompt.text] as const] : []), ...(answer ? [["The last answer", answer.text] as const] : [])];
}

function is(one: Message, role: string): boolean {
  return one.kind === "message" && one.role === role && one.text.trim() !== "" && !one.undone;
}
