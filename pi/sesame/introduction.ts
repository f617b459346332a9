/** What a session is, in a few lines for the model: its summary, or how it began and ended. */
import type { Ask } from "./ask.ts";
import { RpcError } from "./client.ts";
import { about, annotations, exactly, name, QUOTED, reading } from "./present.ts";
import { clean, fitting, line, quoted } from "./text.ts";
import { NOT_FOUND } from "./trouble.ts";
import type { Message, Meta, Page } from "./wire.ts";

const ALL_CHARACTERS = 19_500; // of what one prompt adds, however many sessions it names
const QUOTE_CHARACTERS = 2_000;
const FIRST = 30; // messages among which the first prompt is
const LAST = 60; // and the last answer

/** A session, by the reference that stands for it in the prompt; or the ancestor of one. */
export interface Named {
  reference: string;
  meta: Meta;
  generation?: number; // 1: what the session of the reference was begun from
}

type Quote = readonly [what: string, text: string];

/** All sessions that a prompt names: what is quoted of them shares what the lines around it leave. */
export async function introductions(ask: Ask, named: Named[], reads: string, signal?: AbortSignal): Promise<string[]> {
  const quotes: Quote[][] = [];
  for (const { meta } of named) quotes.push(meta.summary ? [["Its summary", meta.summary]] : await ends(ask, exactly(meta), signal));
  const introduce = (room: number) => named.map((one, index) => introduced(one, quotes[index] ?? [], reads, room));
  const left = ALL_CHARACTERS - introduce(0).join("\n\n").length;
  return introduce(Math.min(QUOTE_CHARACTERS, Math.floor(left / Math.max(1, quotes.flat().length))));
}

function introduced({ reference, meta, generation = 0 }: Named, quotes: Quote[], reads: string, room: number): string {
  const what = generation === 0 ? `@@${line(reference)} is` : generation === 1 ? `@@${line(reference)}: that was begun from` : `@@${line(reference)}: and that one from`;
  return [
    `${what} the past session ${name(meta)}`,
    about(meta),
    ...annotations(meta, "summary"),
    QUOTED,
    ...quotes.flatMap(([what, text]) => [`${what}:`, quoted(within(clean(text).trim(), room))]),
    `Read it with ${reading(reads, meta)}.`,
  ].join("\n");
}

/** As much of a text as fits when it is quoted. */
function within(text: string, room: number): string {
  const count = fitting(text, room - 1);
  const kept = [...text.slice(0, 2 * count + 1)].slice(0, count).join("");
  return kept.length === text.length ? text : `${kept}…`;
}

/** The sessions that a session was begun from, the last one first: so many, or as many as are indexed. */
export async function ancestors(ask: Ask, { reference, meta }: Named, most: number, signal?: AbortSignal): Promise<Named[]> {
  const found: Named[] = [];
  const seen = new Set([meta.sessionId]);
  for (let child = meta; found.length < most && child.parentSessionId; ) {
    const parent = await ask<Meta>("get_session_meta", { sessionId: exactly({ source: child.source, sessionId: child.parentSessionId }) }, signal).catch(unlessUnknown);
    if (!parent || seen.has(parent.sessionId)) break; // two may call each other parents
    seen.add(parent.sessionId);
    found.push({ reference, meta: parent, generation: found.length + 1 });
    child = parent;
  }
  return found;
}

function unlessUnknown(error: unknown): undefined {
  if (!(error instanceof RpcError) || error.code !== NOT_FOUND) throw error;
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
