/**
 * Prompts with references: what a session is about goes into the context as a message of its own, once, so that the person's text
 * stays as typed and nothing that was sent before changes. To a working model it travels with its prompt, for a message of its own
 * would be answered alone.
 */
import type { ExtensionAPI, ExtensionContext, InputEvent, InputEventResult } from "@earendil-works/pi-coding-agent";
import { type Ask, asker, STARTED, way } from "./ask.ts";
import { putBack } from "./editor.ts";
import { ancestors, introductions, type Named } from "./introduction.ts";
import type { Usage } from "./model.ts";
import { beginning } from "./present.ts";
import { type Answered, type Asked, modelFor, query } from "./query.ts";
import { CUSTOM_TYPE, questionIn, references, toldOf, withBlock } from "./references.ts";
import { chosen, type Meaning, meanings } from "./resolve.ts";
import { cut, day, line } from "./text.ts";
import { explained, notice } from "./trouble.ts";
import { Aborted, waitedFor } from "./waiting.ts";
import type { Meta } from "./wire.ts";

const PATIENCE_MS = 3_000; // a person waits for it to send the prompt

interface Told {
  customType: string;
  content: string;
  display: true;
  details: { ids: string[]; names: string[] };
}

/** What a person decided before: the session that a reference means, or null for none. And of what they have been told. */
interface Memory {
  choices: Map<string, string | null>;
  warned: Set<string>;
}

export function registerPrompts(pi: ExtensionAPI, reads: string): void {
  const memory: Memory = { choices: new Map(), warned: new Set() };
  let waiting: { told: Told; token: string } | undefined;

  pi.on("input", async (event, ctx): Promise<InputEventResult | undefined> => {
    waiting = undefined;
    const found = event.source === "extension" ? [] : references(event.text);
    if (found.length === 0) return undefined;
    const how = way(PATIENCE_MS);
    const ask = asker((command, args, options) => pi.exec(command, args, options), how);
    try {
      const meant = await waitedFor(ctx, (signal) => meanings(ask, found, { cwd: ctx.cwd, own: ctx.sessionManager.getSessionId() }, signal));
      if (how.started) notice(ctx, STARTED, "info");
      warn(ctx, meant, memory);
      const sessions = await decided(ctx, meant, memory);
      if (!sessions) return refused(event, ctx);
      const answer = await answered(ask, sessions, questionIn(event.text), ctx, reads);
      const told = await waitedFor(ctx, (signal) => message(ask, sessions, answer, ctx, reads, signal));
      if (!told) return undefined;
      if (!ctx.isIdle() && !event.text.startsWith("/")) return { action: "transform", text: withBlock(event.text, told.content, told.details.ids) };
      if (ctx.isIdle()) waiting = { told, token: `@@${found[0]?.name}` };
      else pi.sendMessage(told, { deliverAs: event.streamingBehavior ?? "steer" }); // behind a command it would be its argument
    } catch (error) {
      if (error instanceof Aborted) return refused(event, ctx);
      notice(ctx, error instanceof Error ? error.message : String(error), "warning");
    }
    return undefined;
  });

  pi.on("before_agent_start", ({ prompt }) => {
    const mine = waiting !== undefined && prompt.includes(waiting.token) ? waiting.told : undefined; // another extension may have taken that prompt
    waiting = undefined;
    return mine && { message: mine };
  });
}

/** What is to be known of references that mean nothing, each once: it may be code, which comes again and again. */
function warn(ctx: ExtensionContext, meant: Meaning[], { warned }: Memory): void {
  const troubles = meant.filter(({ reference }) => !warned.has(reference)).flatMap((one) => {
    const trouble = "trouble" in one ? one.trouble : "fits" in one && !one.isExact && !ctx.hasUI ? one.why : undefined;
    if (trouble) warned.add(one.reference);
    return trouble ? [trouble] : [];
  });
  if (troubles.length > 0) notice(ctx, troubles.join("\n"), "warning");
}

interface Decided {
  sessions: { reference: string; sessionId: string; ancestors: number }[];
  unclear: string[]; // for the model, where no person can be asked
}

/** The sessions that are meant; undefined if the person would rather mend the prompt. */
async function decided(ctx: ExtensionContext, meant: Meaning[], { choices }: Memory): Promise<Decided | undefined> {
  const result: Decided = { sessions: [], unclear: [] };
  for (const one of meant) {
    const { reference, ancestors = 0 } = one;
    if ("sessionId" in one) result.sessions.push({ reference, sessionId: one.sessionId, ancestors });
    if (!("fits" in one)) continue;
    if (!ctx.hasUI) {
      if (one.isExact) result.unclear.push(one.why);
      continue;
    }
    const choice = choices.has(reference) ? choices.get(reference) : await chosen(ctx, reference, one.fits);
    if (choice === undefined) return undefined;
    choices.set(reference, choice);
    if (choice !== null) result.sessions.push({ reference, sessionId: choice, ancestors });
  }
  return result;
}

/** Nothing is sent; the person finds the text again. */
function refused(event: InputEvent, ctx: ExtensionContext): InputEventResult {
  putBack(ctx, event.text);
  return { action: "handled" };
}

/** The answer to a prompt that asks a session (`@@name: why?`). Whatever is wrong is said, and the prompt goes on with what is told of the session. */
async function answered(ask: Ask, { sessions }: Decided, asks: ReturnType<typeof questionIn>, ctx: ExtensionContext, reads: string): Promise<string | undefined> {
  const target = asks && sessions.find(({ reference }) => reference === asks.name);
  if (!target) return undefined;
  try {
    const asked = modelFor(ctx);
    const found = await waitedFor(ctx, async (signal) => query(ask, asked, await metaOf(ask, target.sessionId, signal), asks.question, { reads, signal }), asked.key);
    if (ctx.isIdle()) count(ctx, asked, found);
    return `The user's question was put to the session @@${line(target.reference)}. ${found.text}`;
  } catch (error) {
    if (error instanceof Aborted) throw error;
    notice(ctx, `@@${line(target.reference)}: ${explained(error).message}`, "warning");
    return undefined;
  }
}

/** What was spent, in the session's totals. pi's types hide how, and 0.74 has no such thing. */
function count(ctx: ExtensionContext, { model }: Asked, { usage }: Answered): void {
  const manager = ctx.sessionManager as { appendUsage?: (kind: string, provider: string, model: string, usage: Usage) => void };
  manager.appendUsage?.("sesame-question", model.provider, model.id, usage);
}

function metaOf(ask: Ask, sessionId: string, signal: AbortSignal): Promise<Meta> {
  return ask<Meta>("get_session_meta", { sessionId }, signal);
}

async function message(ask: Ask, { sessions, unclear }: Decided, answer: string | undefined, ctx: ExtensionContext, reads: string, signal: AbortSignal): Promise<Told | undefined> {
  const known = toldOf(ctx.sessionManager.getBranch()).add(ctx.sessionManager.getSessionId());
  const meant = new Map<string, Named>();
  const lacking: string[] = [];
  const add = (one: Named) => known.has(beginning(one.meta.sessionId)) || meant.has(one.meta.sessionId) || meant.set(one.meta.sessionId, one);
  for (const { reference, sessionId, ancestors: most } of sessions) {
    if (most === 0 && known.has(beginning(sessionId))) continue;
    const one: Named = { reference, meta: await metaOf(ask, sessionId, signal) };
    const above = await ancestors(ask, one, most, signal);
    for (const each of [one, ...above]) add(each);
    if (above.length < most) lacking.push(`@@${line(reference)}: ${above.length} of these ancestors are indexed.`);
  }
  const named = [...meant.values()];
  const asking = unclear.map((what) => `${what}\nAsk the user which one is meant.`);
  const parts = [...(await introductions(ask, named, reads, signal)), ...lacking, ...(answer ? [answer] : []), ...asking];
  if (parts.length === 0) return undefined;
  const names = named.map(({ meta }) => `${cut(line(meta.name ?? meta.sessionId), 80)}  ${day(meta.modified)}`);
  return { customType: CUSTOM_TYPE, content: parts.join("\n\n"), display: true, details: { ids: [...meant.keys()].map(beginning), names } };
}
