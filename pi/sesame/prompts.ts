/**
 * Prompts with references: what a session is about goes into the context as a message of its own, once, so that the person's text
 * stays as typed and nothing that was sent before changes. To a working model it travels with its prompt, for a message of its own
 * would be answered alone.
 */
import type { ExtensionAPI, ExtensionContext, InputEvent, InputEventResult } from "@earendil-works/pi-coding-agent";
import { type Ask, asker, STARTED, way } from "./ask.ts";
import { putBack } from "./editor.ts";
import { introductions } from "./introduction.ts";
import { beginning } from "./present.ts";
import { CUSTOM_TYPE, references, toldOf, withBlock } from "./references.ts";
import { chosen, type Meaning, meanings } from "./resolve.ts";
import { cut, day, line } from "./text.ts";
import { notice } from "./trouble.ts";
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
      const told = await waitedFor(ctx, (signal) => message(ask, sessions, ctx, reads, signal));
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
  sessions: { reference: string; sessionId: string }[];
  unclear: string[]; // for the model, where no person can be asked
}

/** The sessions that are meant; undefined if the person would rather mend the prompt. */
async function decided(ctx: ExtensionContext, meant: Meaning[], { choices }: Memory): Promise<Decided | undefined> {
  const result: Decided = { sessions: [], unclear: [] };
  for (const one of meant) {
    const { reference } = one;
    if ("sessionId" in one) result.sessions.push({ reference, sessionId: one.sessionId });
    if (!("fits" in one)) continue;
    if (!ctx.hasUI) {
      if (one.isExact) result.unclear.push(one.why);
      continue;
    }
    const choice = choices.has(reference) ? choices.get(reference) : await chosen(ctx, reference, one.fits);
    if (choice === undefined) return undefined;
    choices.set(reference, choice);
    if (choice !== null) result.sessions.push({ reference, sessionId: choice });
  }
  return result;
}

/** Nothing is sent; the person finds the text again. */
function refused(event: InputEvent, ctx: ExtensionContext): InputEventResult {
  putBack(ctx, event.text);
  return { action: "handled" };
}

async function message(ask: Ask, { sessions, unclear }: Decided, ctx: ExtensionContext, reads: string, signal: AbortSignal): Promise<Told | undefined> {
  const known = toldOf(ctx.sessionManager.getBranch()).add(ctx.sessionManager.getSessionId());
  const metas = new Map<string, { reference: string; meta: Meta }>();
  for (const { reference, sessionId } of sessions)
    if (!known.has(beginning(sessionId)) && !metas.has(sessionId)) metas.set(sessionId, { reference, meta: await ask<Meta>("get_session_meta", { sessionId }, signal) });
  const named = [...metas.values()];
  const parts = [...(await introductions(ask, named, reads, signal)), ...unclear.map((what) => `${what}\nAsk the user which one is meant.`)];
  if (parts.length === 0) return undefined;
  const names = named.map(({ meta }) => `${cut(line(meta.name ?? meta.sessionId), 80)}  ${day(meta.modified)}`);
  return { customType: CUSTOM_TYPE, content: parts.join("\n\n"), display: true, details: { ids: [...metas.keys()].map(beginning), names } };
}
