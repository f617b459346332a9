/**
 * Session memory: when a run of the agent has ended, and by a command, a model that the person chose writes what the session is. Off
 * until one is chosen. One session at a time, and nothing by halves: whatever ends a session ends the call that is about it.
 */
import { type ExtensionAPI, type ExtensionCommandContext, type ExtensionContext, getAgentDir, VERSION } from "@earendil-works/pi-coding-agent";
import { matchesKey } from "@earendil-works/pi-tui";
import { asker, way } from "../ask.ts";
import { RpcError } from "../client.ts";
import { type Chosen, chooseModel, ModelError, type Usage } from "../model.ts";
import { DEFAULTS, readSettings, type Settings, settingsFile } from "../settings.ts";
import { cut, line } from "../text.ts";
import { explained, NOT_FOUND, notice } from "../trouble.ts";
import { isNewer } from "../version.ts";
import { Budget, SpentError } from "./budget.ts";
import { due } from "./older.ts";
import { type Means, NotDue, NotRemembered, remember, type Remembered, type Subject } from "./remembering.ts";
import { ATTEMPT, isTheirs, newPrompts, OURS, subjectOf } from "./running.ts";
import { dollars, Status } from "./status.ts";

type Tell = (ctx: ExtensionContext, text: string) => void;

const IS_SETTLED_SINCE = "0.80.4"; // before, pi says the same of a run that it will try again
const SETTLES = !isNewer(IS_SETTLED_SINCE, VERSION);
const IN_PI = "SESAME_IN_PI"; // which pi, for all that it starts: the shell of pi 0.74 tells nobody
const IS_CHILD = process.env.PI_SESSION_ID !== undefined || ![undefined, String(process.pid)].includes(process.env[IN_PI]);

/** What belongs to one session of pi's, and ends with it. */
interface Here {
  ctx: ExtensionContext;
  status: Status;
  control: AbortController;
  last: Promise<unknown>; // what is done comes one after the other
  own: Promise<Remembered> | undefined; // about this session: under way, or next
  attempts: object[]; // that wait until nobody else writes into the session
}

/** Gives what is to be done with each session that begins. */
export function registerMemory(pi: ExtensionAPI, tell: Tell): (ctx: ExtensionContext) => void {
  const memory = new Memory(pi, tell);
  const ended = (event: object, ctx: ExtensionContext) => memory.ended(event, ctx);
  if (SETTLES) pi.on("agent_settled", ended);
  else pi.on("agent_end", ended);
  pi.on("session_shutdown", () => memory.end());
  process.env[IN_PI] ??= String(process.pid);
  return (ctx) => memory.begin(ctx);
}

class Memory {
  readonly #pi: ExtensionAPI;
  readonly #tell: Tell;
  readonly #agentDirectory = getAgentDir();
  #settings: Settings | Error | undefined;
  #isTaken = false;
  #here: Here | undefined;

  constructor(pi: ExtensionAPI, tell: Tell) {
    this.#pi = pi;
    this.#tell = tell;
  }

  begin(ctx: ExtensionContext): void {
    this.#settings ??= this.#read();
    const settings = this.#settings instanceof Error ? DEFAULTS : this.#settings;
    this.#here ??= { ctx, status: new Status(ctx, settings), control: new AbortController(), last: Promise.resolve(), own: undefined, attempts: [] };
    const trouble = this.#trouble(ctx);
    if (trouble && (ctx.hasUI || settings.waitInPrintMode)) this.#tell(ctx, `sesame writes nothing about sessions: ${trouble}`);
    if (!trouble && this.#mayBeAsked(ctx) && ctx.hasUI && settings.backfill > 0) void this.#older(this.#here, settings).catch(() => {});
  }

  async ended(event: object, ctx: ExtensionContext): Promise<void> {
    const here = this.#here;
    if (!here || !this.#mayBeAsked(ctx) || ("aborted" in event && event.aborted)) return;
    this.#write(here);
    const settings = this.#settings as Settings;
    if ((!ctx.hasUI && !settings.waitInPrintMode) || here.own || isTheirs(ctx) || this.#trouble(ctx)) return;
    const subject = subjectOf(ctx);
    const least = settings.minNewUserMessages;
    if (!subject || this.#since(ctx) < least) return;
    const done = this.#remembered(here, { ...subject, least }).catch(() => {}); // the status line says so
    if (!ctx.hasUI) await done;
  }

  async end(): Promise<void> {
    const here = this.#here;
    if (!here) return;
    if (!SETTLES && !here.ctx.hasUI) await here.own?.catch(() => {}); // it waits for nothing else before it ends
    this.#write(here);
    this.#here = undefined;
    here.status.end();
    here.control.abort();
    await here.last;
  }

  /** The settings; and the command, unless it is session-index itself that is loaded here. */
  #read(): Settings | Error {
    let settings: Settings | Error;
    try {
      settings = readSettings(this.#agentDirectory);
    } catch (error) {
      settings = error as Error;
    }
    const name = settings instanceof Error ? DEFAULTS.commandName : settings.commandName;
    this.#isTaken = this.#pi.getCommands().some((one) => one.source === "extension" && [name, DEFAULTS.commandName].includes(one.name));
    if (!this.#isTaken) this.#pi.registerCommand(name, { description: "Have a model write what this session is, to be found by: name, summary, tags and recall words", handler: (_given, ctx) => this.#forced(ctx) });
    return settings;
  }

  /** Whether a model was chosen and nobody else does this. */
  #mayBeAsked(ctx: ExtensionContext): boolean {
    return !IS_CHILD && !this.#isTaken && !(this.#settings instanceof Error) && (this.#settings?.modelKeys.length ?? 0) > 0 && ctx.sessionManager.getSessionFile() !== undefined;
  }

  /** What is wrong with what the person chose. */
  #trouble(ctx: ExtensionContext): string | undefined {
    if (this.#settings instanceof Error) return this.#settings.message;
    if (!this.#settings?.modelKeys.length || IS_CHILD) return undefined;
    if (this.#isTaken) return `another extension has the command /${this.#settings.commandName}`;
    try {
      this.#chosen(ctx);
      return undefined;
    } catch (error) {
      return `${(error as Error).message} (modelKeys in ${settingsFile(this.#agentDirectory)})`;
    }
  }

  #chosen(ctx: ExtensionContext): Chosen {
    return chooseModel(ctx.modelRegistry, (this.#settings as Settings).modelKeys);
  }

  #since(ctx: ExtensionContext): number {
    const { count, corrupt } = newPrompts(ctx, this.#agentDirectory);
    if (corrupt) this.#tell(ctx, corrupt);
    return count;
  }

  async #forced(ctx: ExtensionCommandContext): Promise<void> {
    await ctx.waitForIdle();
    try {
      const { name, usage } = await this.#now(ctx);
      notice(ctx, `Indexed as ${JSON.stringify(cut(line(name), 200))} (${dollars(usage.cost.total)})`, "info");
    } catch (error) {
      if (!ctx.hasUI) throw error;
      ctx.ui.notify(line(explained(error).message), "error");
    }
  }

  #now(ctx: ExtensionCommandContext): Promise<Remembered> {
    const trouble = this.#trouble(ctx);
    const here = this.#here;
    const subject = subjectOf(ctx);
    if (trouble) throw new Error(trouble);
    if (!here || (this.#settings as Settings).modelKeys.length === 0) throw new Error(`no model is chosen: put modelKeys into ${settingsFile(this.#agentDirectory)}, such as {"modelKeys": ["provider/model"]}`);
    if (IS_CHILD) throw new Error("this pi was started by another one, whose work it is a part of: it is not indexed by itself");
    if (!subject) throw new Error("pi keeps no file of this session, so there is nothing to index");
    if (here.own) throw new Error("this session is being indexed already");
    this.#since(ctx);
    return this.#remembered(here, subject, true);
  }

  /** This session, when those before it are done. */
  #remembered(here: Here, subject: Subject, isForced = false): Promise<Remembered> {
    here.own = this.#inTurn(here, () => this.#attempt(here, subject, isForced)).finally(() => {
      here.own = undefined;
    });
    return here.own;
  }

  #inTurn<T>(here: Here, work: () => Promise<T>): Promise<T> {
    const mine = here.last.then(work);
    here.last = mine.catch(() => {});
    return mine;
  }

  async #attempt(here: Here, subject: Subject, isForced: boolean): Promise<Remembered> {
    const { key } = this.#chosen(here.ctx);
    const escape = isForced ? escapeIn(here.ctx) : undefined;
    const how = escape && here.ctx.mode === "tui" ? " (escape ends it)" : "";
    try {
      const done = await remember(subject, this.#means(here, how, escape?.signal));
      here.status.done(`session indexed (${dollars(done.usage.cost.total)})`);
      this.#keep(here, { success: true, sessionId: subject.nativeId, model: key, usage: done.usage });
      return done;
    } catch (error) {
      const why = cut(line(explained(error).message), 500);
      if (isForced || !(error instanceof NotDue || isRefused(error))) here.status.done(`index failed: ${why}`); // what is excluded is no error, unless somebody asks
      if (wasAsked(error)) this.#keep(here, { success: false, sessionId: subject.nativeId, model: key, ...(error.usage && { usage: error.usage }), error: why });
      throw error;
    } finally {
      escape?.end();
    }
  }

  #means(here: Here, how: string, escape?: AbortSignal): Means {
    const { ctx, control, status } = here;
    const exec: Parameters<typeof asker>[0] = (command, args, options) => this.#pi.exec(command, args, options);
    return {
      ask: asker(exec, way()),
      registry: ctx.modelRegistry,
      chosen: this.#chosen(ctx),
      budget: new Budget(this.#agentDirectory, (this.#settings as Settings).budgetCents),
      agentDirectory: this.#agentDirectory,
      signal: escape ? AbortSignal.any([control.signal, escape]) : control.signal,
      asking: (retry, of) => status.doing(`indexing${how} …${retry > 0 ? ` (retry ${retry}/${of})` : ""}`),
    };
  }

  async #older(here: Here, { backfill }: Settings): Promise<void> {
    const means = this.#means(here, " an older session");
    let [count, usd] = [0, 0];
    for await (const subject of due(means.ask, here.ctx.sessionManager.getSessionId(), means.budget, backfill, means.signal)) {
      const failed = await this.#inTurn(here, () => remember(subject, means)).then(
        ({ usage }) => void ((count += 1), (usd += usage.cost.total)),
        (error: unknown) => error,
      );
      if (failed instanceof NotRemembered && (failed.cause instanceof ModelError || failed.cause instanceof SpentError)) break;
    }
    here.status.done(count > 0 ? `${count} older sessions indexed (${dollars(usd)})` : undefined);
  }

  /** What became of an attempt, for the session's file: not among the messages of a run. */
  #keep(here: Here, attempt: { success: boolean; sessionId: string | undefined; model: string; usage?: Usage; error?: string }): void {
    if (here.control.signal.aborted) return;
    here.attempts.push({ ...attempt, timestamp: new Date().toISOString(), by: OURS });
    if (here.ctx.isIdle()) this.#write(here);
  }

  #write(here: Here): void {
    for (const attempt of here.attempts.splice(0)) this.#pi.appendEntry(ATTEMPT, attempt);
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof RpcError && error.code === NOT_FOUND;
}

/** Whether it failed when a model had been asked. */
function wasAsked(error: unknown): error is NotRemembered {
  return error instanceof NotRemembered && (error.usage !== undefined || !(error.cause instanceof SpentError));
}

/** The person may end it by a key, where there are keys. */
function escapeIn(ctx: ExtensionContext): { signal: AbortSignal; end: () => void } | undefined {
  if (!ctx.hasUI) return undefined;
  const control = new AbortController();
  const listening = ctx.ui.onTerminalInput?.((data) => {
    if (!matchesKey(data, "escape")) return undefined;
    control.abort();
    return { consume: true };
  });
  return { signal: control.signal, end: () => listening?.() };
}
