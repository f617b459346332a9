/** `/sessions WORDS`: find, look, choose; then open it, fork it here, or take it into the prompt. No session file is read to find it. */
import { type ExtensionAPI, type ExtensionCommandContext, SessionManager } from "@earendil-works/pi-coding-agent";
import { asked, completions } from "./asked.ts";
import { type Ask, asker, STARTED, way } from "./ask.ts";
import { call } from "./client.ts";
import { paste } from "./editor.ts";
import { socketPath } from "./locations.ts";
import type { Place } from "./pages.ts";
import { type Choice, type Action, Picker } from "./picker.ts";
import { count, reading, short, which } from "./present.ts";
import { isReference } from "./references.ts";
import { option } from "./rows.ts";
import { chooseTools, filters } from "./schema.ts";
import { cut, line } from "./text.ts";
import { explained } from "./trouble.ts";
import { Aborted, waitedFor } from "./waiting.ts";
import type { Found, Hello, Hit, Meta, Page, TimeFilter } from "./wire.ts";
import { zone } from "./zone.ts";

const MOST = 50;
const AROUND = 9; // messages to look at, those around the passage
const CAN: Record<Action, string> = { open: "Open it", fork: "Fork it: go on from its end in a new session here", prompt: "Take it into the prompt" };

/** `reads` is what the tool is called that reads a session. */
export function registerCommand(pi: ExtensionAPI, name: string, reads: string): void {
  pi.registerCommand(name, {
    description: "Find past sessions by words and filters (cwd:. path: source: after: scope:both …) and open, fork or quote one; without words the latest of this project",
    getArgumentCompletions: async (typed) => completions(typed, /source[=:\s]\S*$/.test(typed) ? await sources() : []),
    handler: async (text, ctx) => {
      try {
        await run(pi, text.trim(), reads, ctx);
      } catch (error) {
        if (error instanceof Aborted) return;
        if (!ctx.hasUI) throw error;
        ctx.ui.notify(explained(error).message, "error");
      }
    },
  });
}

/** The agents of which there may be sessions. Whoever types must not be disturbed by what is wrong. */
async function sources(): Promise<string[]> {
  const status = await call<{ sources?: { parser: string }[] }>(socketPath(), "status", {}, { timeoutMs: 1_000 }).catch(() => undefined);
  return [...new Set(status?.sources?.map(({ parser }) => parser))].sort();
}

async function run(pi: ExtensionAPI, text: string, reads: string, ctx: ExtensionCommandContext): Promise<void> {
  if (!ctx.hasUI) throw new Error("this command lets a person choose; here is nobody. Ask the model to search, or run `sesamectl search`");
  const how = way();
  const ask = asker((command, args, options) => pi.exec(command, args, options), how);
  const answer = await waitedFor(ctx, (signal) => found(ask, text, ctx, signal));
  if (how.started) ctx.ui.notify(STARTED, "info");
  if (answer.results.length === 0) return ctx.ui.notify(text ? `No past session matches ${line(text)}` : "No past sessions of this project", "info");
  const chosen = await choose(ask, [text ? `Sessions with ${cut(line(text), 60)}` : "Sessions of this project", ...remarks(answer)].join(", "), answer, ctx);
  if (chosen) await act(chosen, await ask<Meta>("get_session_meta", which(chosen.hit)), reads, ctx);
}

/** What became of words for a time at the end of the question. */
const SAID: Record<TimeFilter["effect"], (time: TimeFilter) => string> = {
  acts: ({ words, days }) => `${cut(line(words), 40)}: ${cut(line(days), 40)}`,
  nothing: ({ words }) => `nothing ${cut(line(words), 40)}`,
  words: () => "by time: on: or after:",
};

/** What limits all of them. If the best one has what was searched instead of a slip, that says enough. */
function remarks(answer: Found): string[] {
  const meant = Object.values(answer.corrected).join(", ");
  const isWeak = answer.weak && (!meant || (answer.results[0]?.missingWords.length ?? 0) > 0);
  const time = answer.timeFilter;
  return [
    ...(time ? [SAID[time.effect](time)] : []),
    ...(meant ? [`searched for ${cut(line(meant), 40)}`] : []),
    ...(isWeak ? ["hardly about it"] : []),
    ...(answer.pending.files > 0 ? [`${count(answer.pending.files, "file")} not read yet`] : []),
    ...answer.warnings.slice(0, 1).map((warning) => cut(line(warning), 100)),
  ];
}

async function found(ask: Ask, text: string, ctx: ExtensionCommandContext, signal: AbortSignal): Promise<Found> {
  const { query, given } = asked(text);
  const narrowed = filters(text ? given : { cwd: "." }, ctx.cwd);
  const params = narrowed.tool === undefined ? narrowed : chooseTools(narrowed, (await ask<Hello>("hello", {}, signal)).toolFamilies ?? {});
  return ask<Found>("search", { query, timeWords: true, timeZone: zone(), ...params, exclude: [ctx.sessionManager.getSessionId()], limit: MOST, fresh: true }, signal);
}

/** In a terminal by our own list; elsewhere by pi's dialogs. */
async function choose(ask: Ask, heading: string, { results: hits, total, totalExact }: Found, ctx: ExtensionCommandContext): Promise<Choice | undefined> {
  let isShown = false;
  const read = (hit: Hit) => ask<Page>("list_messages", { ...place(hit), limit: AROUND, ...(typeof hit.match?.msgIdx === "number" ? { around: hit.match.msgIdx } : {}) });
  const choice = await ctx.ui.custom<Choice | undefined>((tui, theme, _keys, done) => {
    isShown = true;
    const of = `${Math.max(total ?? 0, hits.length)}${totalExact === false ? " or more" : ""}`;
    return new Picker(hits, { heading, of, theme, height: () => tui.terminal.rows, read, redraw: () => tui.requestRender(), done });
  });
  if (isShown) return choice;
  const options = hits.map((hit, index) => option(hit, index));
  const hit = hits[options.indexOf((await ctx.ui.select(heading, options)) ?? "")];
  if (!hit) return undefined;
  const can = Object.values(CAN);
  const action = Object.keys(CAN)[can.indexOf((await ctx.ui.select(cut(line(hit.name ?? hit.sessionId), 60), can)) ?? "")] as Action | undefined;
  return action && { hit, action };
}

/** Where a hit is read: in a subagent, if that is where it is. */
function place(hit: Hit): Place {
  const own = which(hit);
  return !hit.match || hit.match.sessionId === hit.sessionId ? own : { ...own, sessionId: hit.match.sessionId };
}

async function act({ hit, action }: Choice, meta: Meta, reads: string, ctx: ExtensionCommandContext): Promise<void> {
  if (action === "prompt") return quote(hit, reads, ctx);
  if (hit.source !== "pi" || hit.gone || hit.person) return refuse(hit, meta, reads, ctx);
  if (!ctx.isIdle() && !(await ctx.ui.confirm("The model is still answering", "Opening another session ends that. Open it?"))) return;
  const path = action === "open" ? hit.path : SessionManager.forkFrom(hit.path, ctx.cwd, ctx.sessionManager.getSessionDir()).getSessionFile();
  if (path) await ctx.switchSession(path); // this context is gone then
}

/** A reference to it, which tells the model about it when the prompt is sent. References are to what is here: of what a hub has, the model's own call. */
function quote(hit: Hit, reads: string, ctx: ExtensionCommandContext): void {
  if (hit.asOf) return paste(ctx, `${reading(reads, hit)} `);
  const reference = short(hit);
  if (isReference(reference)) paste(ctx, `@@${reference} `);
  else ctx.ui.notify(`${line(reference)} is an id that no prompt can name`, "warning");
}

/** Of other agents' sessions: how to open them, and a reference to ask about it here. */
function refuse(hit: Hit, meta: Meta, reads: string, ctx: ExtensionCommandContext): void {
  const why = hit.gone ? "its file is gone" : hit.person ? `it is a session of ${line(hit.person)}` : `it is a session of ${line(hit.source)}`;
  const no = meta.resumeProblem && !hit.gone ? `, and ${cut(line(meta.resumeProblem.message), 1000)}` : "";
  const how = meta.resume ? `; open it with \`${cut(line(meta.resume.command.join(" ")), 1000)}\` in ${cut(line(meta.resume.cwd ?? "its directory"), 1000)}` : no;
  ctx.ui.notify(`pi cannot open it: ${why}${how}`, "info");
  if (hit.asOf || isReference(short(hit))) quote(hit, reads, ctx);
}
