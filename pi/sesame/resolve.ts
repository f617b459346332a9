/**
 * References in a prompt, resolved: what a session is about goes into the context as a message of its own, once, so that the
 * person's text stays as typed and nothing that was sent before changes. One that fits several sessions stops the prompt.
 */
import type { ExtensionAPI, ExtensionContext, InputEvent, InputEventResult } from "@earendil-works/pi-coding-agent";
import { type Ask, asker, STARTED, way } from "./ask.ts";
import { about, beginning, name, QUOTED, reading } from "./present.ts";
import { CUSTOM_TYPE, isMeant, type Reference, references, toldOf } from "./references.ts";
import { RpcError } from "./client.ts";
import { clean, cut, day, line, quoted } from "./text.ts";
import { AMBIGUOUS, candidate, explained, fitting, notice } from "./trouble.ts";
import type { Message, Meta, Page, Session } from "./wire.ts";

const QUOTE_CHARACTERS = 2_000;
const FIRST = 30; // messages among which the first prompt is
const NEAREST = 3;
const LAST = 60; // and the last answer
const PATIENCE_MS = 3_000; // a person waits for it to send the prompt
const SAID_AFTER_MS = 300; // that there is something to wait for

interface Told {
  customType: string;
  content: string;
  display: true;
  details: { ids: string[]; names: string[] };
}

interface Resolution {
  metas: Map<string, { reference: string; meta: Meta }>;
  ambiguous: string[];
  troubles: string[];
}

export function registerReferences(pi: ExtensionAPI, reads: string): void {
  let waiting: Told | undefined;

  pi.on("input", async (event, ctx): Promise<InputEventResult | undefined> => {
    waiting = undefined;
    const found = event.source === "extension" ? [] : references(event.text);
    if (found.length === 0) return undefined;
    const how = way(PATIENCE_MS);
    const ask = asker((command, args, options) => pi.exec(command, args, options), how);
    const { metas, ambiguous, troubles } = await waitedFor(ctx, resolved(ask, found, ctx));
    if (how.started) notice(ctx, STARTED, "info");
    if (troubles.length > 0) notice(ctx, troubles.join("\n"), "warning");
    if (ambiguous.length > 0 && ctx.hasUI) return refused(event, ambiguous, ctx);
    const told = await message(ask, metas, ambiguous, reads);
    if (!told) return undefined;
    if (ctx.isIdle()) waiting = told;
    else pi.sendMessage(told, { deliverAs: event.streamingBehavior ?? "steer" });
    return undefined;
  });

  pi.on("before_agent_start", () => {
    const told = waiting;
    waiting = undefined;
    return told && { message: told };
  });
}

/** The person's text has left the editor, and pi shows nothing yet. */
async function waitedFor<T>(ctx: ExtensionContext, work: Promise<T>): Promise<T> {
  let isSaid = false;
  const say = () => {
    isSaid = true;
    ctx.ui.setStatus("sesame", "waiting for sesamed …");
  };
  const timer = setTimeout(say, SAID_AFTER_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
    if (isSaid) ctx.ui.setStatus("sesame", undefined);
  }
}

async function resolved(ask: Ask, found: Reference[], ctx: ExtensionContext): Promise<Resolution> {
  const resolution: Resolution = { metas: new Map(), ambiguous: [], troubles: [] };
  const told = toldOf(ctx.sessionManager.getBranch());
  for (const { name: reference, everywhere } of found)
    try {
      const session = await ask<Session>("resolve_session", { ref: reference, ...(everywhere ? {} : { cwd: ctx.cwd }) }, ctx.signal);
      const { sessionId } = session;
      if (!isMeant(reference, session)) {
        resolution.troubles.push(unsure(reference, [candidate(sessionId, session)]));
        continue;
      }
      if (told.has(beginning(sessionId)) || sessionId === ctx.sessionManager.getSessionId()) continue;
      resolution.metas.set(sessionId, { reference, meta: await ask<Meta>("get_session_meta", { sessionId }, ctx.signal) });
    } catch (error) {
      const what = `@@${line(reference)}: ${explained(error).message}`;
      const fits = error instanceof RpcError && error.code === AMBIGUOUS ? fitting(error) : [];
      if (fits.some((session) => isMeant(reference, session))) resolution.ambiguous.push(what);
      else resolution.troubles.push(fits.length > 0 ? unsure(reference, fits.map((session) => candidate(session.sessionId, session))) : what);
      if (!(error instanceof RpcError)) break; // the daemon cannot be asked: not for the next one either
    }
  return resolution;
}

/** That nothing is added for a reference, and what may have been meant. */
function unsure(reference: string, sessions: string[]): string {
  return `@@${line(reference)}: no session is called so, and no id begins so; nearest: ${sessions.slice(0, NEAREST).join("; ")}`;
}

/** Nothing is sent; the person finds the text again, and what to choose from. */
function refused(event: InputEvent, ambiguous: string[], ctx: ExtensionContext): InputEventResult {
  ctx.ui.setEditorText(event.text);
  ctx.ui.notify(ambiguous.join("\n"), "error");
  return { action: "handled" };
}

async function message(ask: Ask, metas: Resolution["metas"], ambiguous: string[], reads: string): Promise<Told | undefined> {
  const parts: string[] = [];
  for (const { reference, meta } of metas.values()) parts.push(await introduced(ask, reference, meta, reads));
  parts.push(...ambiguous.map((what) => `${what}\nAsk the user which one is meant.`));
  if (parts.length === 0) return undefined;
  const names = [...metas.values()].map(({ meta }) => `${cut(line(meta.name ?? meta.sessionId), 80)}  ${day(meta.modified)}`);
  return { customType: CUSTOM_TYPE, content: parts.join("\n\n"), display: true, details: { ids: [...metas.keys()].map(beginning), names } };
}

/** What a session is, in a few lines: its summary, or how it began and ended. */
async function introduced(ask: Ask, reference: string, meta: Meta, reads: string): Promise<string> {
  const quotes = meta.summary ? [["Its summary", meta.summary] as const] : await ends(ask, meta.sessionId);
  return [
    `@@${line(reference)} is the past session ${name(meta)}`,
    about(meta),
    QUOTED,
    ...quotes.flatMap(([what, text]) => [`${what}:`, quoted(cut(clean(text).trim(), QUOTE_CHARACTERS))]),
    `Read it with ${reading(reads, meta.sessionId)}.`,
  ].join("\n");
}

async function ends(ask: Ask, sessionId: string): Promise<(readonly [string, string])[]> {
  const begin = await ask<Page>("list_messages", { sessionId, offset: 0, limit: FIRST });
  const end = begin.total <= FIRST ? begin : await ask<Page>("list_messages", { sessionId, offset: Math.max(0, begin.total - LAST), limit: LAST });
  const prompt = begin.messages.find((one) => is(one, "user"));
  const answer = end.messages.findLast((one) => is(one, "assistant"));
  return [...(prompt ? [["The first prompt", prompt.text] as const] : []), ...(answer ? [["The last answer", answer.text] as const] : [])];
}

function is(one: Message, role: string): boolean {
  return one.kind === "message" && one.role === role && one.text.trim() !== "" && !one.undone;
}
