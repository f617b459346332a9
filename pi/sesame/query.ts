/** One session is asked: a model reads the newest of it and answers, with the messages that the answer rests on. */
import { type ExtensionContext, getAgentDir } from "@earendil-works/pi-coding-agent";
import type { Ask } from "./ask.ts";
import { excerpt } from "./excerpt.ts";
import { type Chosen, chooseModel, complete, type Registry, type Usage } from "./model.ts";
import type { Place } from "./pages.ts";
import { count, QUOTED, reading, which } from "./present.ts";
import { citations, makeQuestion } from "./question.ts";
import { readSettings } from "./settings.ts";
import { clean, cut, quoted } from "./text.ts";
import type { Meta, Page } from "./wire.ts";

const ROOM = 120_000; // characters of a session, or
const OF_WINDOW = 0.6; // as many for each token of the model's window: some scripts need a token for each
const [ANSWER_TOKENS, ANSWER_CHARACTERS] = [2_000, 12_000];
const NAMED = 20; // numbers

/** Who is asked, as it is before anything is waited for: a session that ends takes pi's own objects with it. */
export interface Asked extends Chosen {
  registry: Registry;
}

export interface Answered {
  text: string; // for a model: what others wrote is marked
  usage: Usage;
  key: string; // the model's
  cited: number[];
  read: number; // messages
  total: number; // on the branch
}

/** The model that the person chose for such things, or else the one that they talk to. Throws if it cannot be asked. */
export function modelFor({ modelRegistry: registry, model }: Pick<ExtensionContext, "modelRegistry" | "model">): Asked {
  const keys = readSettings(getAgentDir()).modelKeys;
  if (keys.length === 0 && !model) throw new Error("no model is chosen (`/model`)");
  return { registry, ...chooseModel(registry, keys.length > 0 ? keys : [`${model?.provider}/${model?.id}`]) };
}

/** The answer to a question about a session, up to one of its messages if that is given. */
export async function query(ask: Ask, asked: Asked, meta: Meta, question: string, how: { reads: string; signal: AbortSignal; upTo?: number | undefined }): Promise<Answered> {
  const place = await placeOf(ask, meta, how.upTo, how.signal);
  const room = Math.min(ROOM, Math.floor(asked.model.contextWindow * OF_WINDOW));
  const said = await excerpt(ask, place, room, how.signal);
  if (said.numbers.length === 0) throw new Error("nothing was said in this session");
  const prompt = makeQuestion(meta, said, question);
  const { text, usage } = await complete(asked.registry, asked.model, prompt, { signal: how.signal, maxTokens: ANSWER_TOKENS }).catch((error: Error) => {
    throw new Error(`${asked.key} did not answer: ${cut(clean(error.message), 500)}`);
  });
  const { known, unknown } = citations(text, new Set(said.numbers));
  const shown = clean(text).trim();
  if (!shown) throw new Error(`${asked.key} answered nothing`);
  const lines = [
    `${asked.key} answers, from ${count(said.numbers.length, "message")} of the ${said.total} that lead to ${how.upTo === undefined ? "the newest one" : `[${how.upTo}]`}${said.isCut ? " (what is left out is older, or between them)" : ""}. ${QUOTED}`,
    quoted(cut(shown, ANSWER_CHARACTERS)),
    rests(known, unknown, meta, how.reads),
  ];
  return { text: lines.join("\n"), usage, key: asked.key, cited: known, read: said.numbers.length, total: said.total };
}

/** The session, and which branch of it. */
async function placeOf(ask: Ask, meta: Meta, upTo: number | undefined, signal: AbortSignal): Promise<Place> {
  if (meta.asOf && upTo !== undefined) throw new Error("a hub does not know which messages lead to which: leave upTo out");
  const place = which(meta);
  return meta.asOf ? place : { ...place, branch: upTo === undefined ? "leaf" : await lineOf(ask, place.sessionId, upTo, signal) };
}

/** The agent's own name of a message: a branch leads to it. */
async function lineOf(ask: Ask, sessionId: string, number: number, signal: AbortSignal): Promise<string> {
  const { messages, total } = await ask<Page>("list_messages", { sessionId, offset: number, limit: 1 }, signal);
  if (messages.length === 0) throw new Error(`there is no [${number}]: messages and tool calls are [0] to [${total - 1}]`);
  const entry = messages[0]?.entryId;
  if (!entry) throw new Error(`[${number}] has no id of its own in this agent's sessions: leave upTo out`);
  return entry;
}

/** Which messages the answer rests on, so that they can be read; and which it names that it was not shown. */
function rests(known: number[], unknown: number[], meta: Meta, reads: string): string {
  const list = (numbers: number[]) => `${numbers.slice(0, NAMED).map((number) => `[${number}]`).join(", ")}${numbers.length > NAMED ? ", …" : ""}`;
  const untrue = unknown.length > 0 ? ` It also names ${list(unknown)}, which it was not shown: do not trust what it says of those.` : "";
  if (known.length === 0) return `It names no message that it rests on: check it with ${reading(reads, meta)}.${untrue}`;
  return `It rests on ${list(known)}. Read them: ${reading(reads, meta, { around: known[0] })}.${untrue}`;
}
