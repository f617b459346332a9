/**
 * Session memory: when a run of the agent has ended, and by a command, a model that the person chose writes what the session is. Off
 * until one is chosen. One session at a time, and nothing by halves: whatever ends a session ends the call that is about it.
 */
import { type ExtensionAPI, type ExtensionCommandContext, type ExtensionContext, VERSION } from "@earendil-works/pi-coding-agent";
import { matchesKey } from "@earendil-works/pi-tui";
import { type Exec, asker, way } from "../ask.ts";
import { RpcError } from "../client.ts";
import { ModelError } from "../model.ts";
import { cut, day, line } from "../text.ts";
import { explained, NOT_FOUND, notice } from "../trouble.ts";
import { isNewer } from "../version.ts";
import { Budget, SpentError } from "./budget.ts";
import { Choice } from "./choice.ts";
import { readLanguages } from "./languages.ts";
import { due } from "./older.ts";
import { type Means, NotDue, NotRemembered, remember, type Remembered, type Subject, Useless } from "./remembering.ts";
import { ATTEMPT, isTheirs, newPrompts, OURS, subjectOf } from "./running.ts";
import { dollars, Status } from "./status.ts";

type Tell = (ctx: ExtensionContext, text: string) => void;

const IS_SETTLED_SINCE = "0.80.4"; // before, pi says the same of a run that it will try again
const OLDER = " an older session";
const SETTLES = !isNewer(IS_SETTLED_SINCE, VERSION);

/** What belongs to one session of pi's, and ends with it. */
interface Here {
  ctx: ExtensionContext;
  status: Status;
  control: AbortController;
  last: Promise<unknown>; // what is done comes one after the other
  own: Promise<Remembered> | undefined; // about this session: under way, or next
  isToLookAgain: boolean; // a run has ended meanwhile
  attempts: object[]; // that wait until nobody else writes into the session
}

/** Gives what is to be done with each session that begins. */
export function registerMemory(pi: ExtensionAPI, tell: Tell): (ctx: ExtensionContext) => void {
  const memory = new Memory(pi, tell);
  const ended = (event: object, ctx: ExtensionContext) => memory.ended(event, ctx);
  if (SETTLES) pi.on("agent_settled", ended);
  else pi.on("agent_end", ended);
  pi.on("session_shutdown", () => memory.end());
  return (ctx) => memory.begin(ctx);
}

class Memory {
  readonly #pi: ExtensionAPI;
  readonly #tell: Tell;
  readonly #choice: Choice;
  #here: Here | undefined;
  #spentOn: string | undefined; // told once a day, and not after every run

  constructor(pi: ExtensionAPI, tell: Tell) {
    this.#pi = pi;
    this.#tell = tell;
    this.#choice = new Choice(pi);
    if (this.#choice.isTheirs) return;
    const description = "Have a model write what this session is, to be found by: name, summary, tags and recall words";
    pi.registerCommand(this.#choice.settings.commandName, { description, handler: (_given, ctx) => this.#forced(ctx) });
  }

  begin(ctx: ExtensionContext): void {
    this.#choice.look();
    const { settings } = this.#choice;
    const here = (this.#here ??= { ctx, status: new Status(ctx, settings), control: new AbortController(), last: Promise.resolve(), own: undefined, isToLookAgain: false, attempts: [] });
    if (!ctx.hasUI && !settings.waitInPrintMode) return;
    const trouble = this.#choice.trouble(ctx);
    if (trouble !== undefined) this.#tell(ctx, `sesame writes nothing about sessions: ${trouble}`);
    else if (this.#choice.isOn && ctx.hasUI && settings.backfill > 0) void this.#older(here).catch(() => {});
  }

  async ended(event: object, ctx: ExtensionContext): Promise<void> {
    const here = this.#here;
    if (!here) return;
    this.#write(here);
    here.isToLookAgain = here.own !== undefined;
    const isAborted = "aborted" in event && event.aborted === true;
    const subject = isAborted || here.own ? undefined : this.#dueNow(ctx);
    if (!subject) return;
    const done = this.#remembered(here, subject).catch(() => {}); // the status line says so
    if (!ctx.hasUI) await done;
  }

  async end(): Promise<void> {
    const here = this.#here;
    if (!here) return;
    while (!SETTLES && !here.ctx.hasUI && here.own) await here.own.catch(() => {}); // it waits for nothing else before it ends
    this.#write(here);
    this.#here = undefined;
    here.status.end();
    here.control.abort();
    await here.last;
  }

  /** The session, if it is to be remembered now without anybody asking for it. */
  #dueNow(ctx: ExtensionContext): Subject | undefined {
    const refusal = this.#choice.refusal(ctx);
    const { settings } = this.#choice;
    const isKeptFrom = (!ctx.hasUI && !settings.waitInPrintMode) || refusal !== undefined || isTheirs(ctx) || this.#spentOn === today();
    const subject = isKeptFrom ? undefined : subjectOf(ctx);
    const least = settings.minNewUserMessages;
    const { sessionManager } = ctx; // not the context, with which nothing can be done when pi has moved on
    return subject && this.#since(ctx) >= least ? { ...subject, least, isTheirs: () => isTheirs({ sessionManager }) } : undefined;
  }

  #since(ctx: ExtensionContext): number {
    const { count, corrupt } = newPrompts(ctx, this.#choice.agentDirectory);
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
    const [here, refusal, subject] = [this.#here, this.#choice.refusal(ctx), subjectOf(ctx)];
    if (refusal !== undefined || !here || !subject) throw new Error(refusal ?? "there is no session");
    if (here.own) throw new Error("this session is being indexed already");
    this.#since(ctx);
    return this.#remembered(here, subject, true);
  }

  /** This session, when those before it are done. */
  #remembered(here: Here, subject: Subject, isForced = false): Promise<Remembered> {
    here.own = this.#inTurn(here, () => this.#attempt(here, subject, isForced)).finally(() => {
      here.own = undefined;
      if (here.isToLookAgain && !here.control.signal.aborted && here.ctx.isIdle()) void this.ended({}, here.ctx).catch(() => {}); // pi may have moved on
    });
    return here.own;
  }

  #inTurn<T>(here: Here, work: () => Promise<T>): Promise<T> {
    const mine = here.last.then(work);
    here.last = mine.catch(() => {});
    return mine;
  }

  async #attempt(here: Here, subject: Subject, isForced: boolean): Promise<Remembered> {
    const { key } = this.#choice.model(here.ctx);
    const escape = isForced ? escapeIn(here.ctx) : undefined;
    const attempt = { sessionId: subject.nativeId, model: key };
    try {
      const done = await remember(subject, this.#means(here, escape && here.ctx.mode === "tui" ? " (escape ends it)" : "", escape?.signal));
      here.status.done(`session indexed (${dollars(done.usage.cost.total)})`);
      this.#keep(here, { success: true, ...attempt, usage: done.usage });
      return done;
    } catch (error) {
      const why = cut(line(explained(error).message), 500);
      if (isForced || isWorthTelling(error)) here.status.done(`index failed: ${why}`);
      if (isSpent(error)) this.#spentOn = today();
      if (wasAsked(error)) this.#keep(here, { success: false, ...attempt, ...(error.usage && { usage: error.usage }), error: why });
      throw error;
    } finally {
      escape?.end();
    }
  }

  #means({ ctx, control, status }: Here, what: string, escape?: AbortSignal): Means {
    const { agentDirectory, settings } = this.#choice;
    const exec: Exec = (command, args, options) => this.#pi.exec(command, args, options);
    const signal = escape ? AbortSignal.any([control.signal, escape]) : control.signal;
    return {
      ask: asker(exec, way()),
      registry: ctx.modelRegistry,
      chosen: this.#choice.model(ctx),
      budget: new Budget(agentDirectory, settings.budgetCents),
      languages: () => readLanguages(exec, signal),
      agentDirectory,
      signal,
      asking: (retry, of) => status.doing(`indexing${what} …${retry > 0 ? ` (retry ${retry}/${of})` : ""}`),
    };
  }

  async #older(here: Here): Promise<void> {
    const means = this.#means(here, OLDER);
    const { backfill } = this.#choice.settings;
    const costs: number[] = [];
    for await (const subject of due(means.ask, here.ctx.sessionManager.getSessionId(), means.budget, backfill, means.signal)) {
      const failed = await this.#inTurn(here, () => remember(subject, this.#means(here, OLDER))).then(
        ({ usage }) => void costs.push(usage.cost.total),
        (error: unknown) => error,
      );
      if (!(failed instanceof NotRemembered)) continue;
      if (failed.cause instanceof Useless) means.budget.giveUp(subject.sessionId);
      if (failed.cause instanceof ModelError || isSpent(failed)) break; // so would the others
    }
    const usd = costs.reduce((sum, cost) => sum + cost, 0);
    here.status.done(costs.length > 0 ? `older sessions indexed: ${costs.length} (${dollars(usd)})` : undefined);
  }

  /** What became of an attempt, for the session's file: not among the messages of a run. */
  #keep(here: Here, attempt: object): void {
    if (here.control.signal.aborted) return;
    here.attempts.push({ ...attempt, timestamp: new Date().toISOString(), by: OURS });
    if (here.ctx.isIdle()) this.#write(here);
  }

  #write(here: Here): void {
    for (const attempt of here.attempts.splice(0)) this.#pi.appendEntry(ATTEMPT, attempt);
  }
}

/** That a session is excluded, or not due, is no error, unless somebody asks for it. */
function isWorthTelling(error: unknown): boolean {
  return !(error instanceof NotDue || (error instanceof RpcError && error.code === NOT_FOUND));
}

function isSpent(error: unknown): boolean {
  return error instanceof NotRemembered && error.cause instanceof SpentError;
}

/** Whether it failed when a model had been asked. */
function wasAsked(error: unknown): error is NotRemembered {
  return error instanceof NotRemembered && (error.usage !== undefined || !isSpent(error));
}

function today(): string {
  return day(new Date().toISOString());
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
