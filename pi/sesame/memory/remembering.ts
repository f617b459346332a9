/** One session: read what was said, ask the model until it answers as it was asked to, store that. */
import type { Ask } from "../ask.ts";
import { type Chosen, complete, ModelError, type Registry, type Said, sum, type Usage } from "../model.ts";
import type { Meta } from "../wire.ts";
import { type Annotations, AnswerError, parseAnswer } from "./answer.ts";
import type { Budget } from "./budget.ts";
import { readConversation, type Conversation } from "./conversation.ts";
import { metaPath, writeMeta } from "./meta.ts";
import { makePrompt, makeRetry } from "./prompt.ts";

const TRIES = 3;
const MAX_TOKENS = 4_000; // of an answer, thoughts included
const TOKEN_BYTES = 4; // about
const SYNC_MS = 10_000;

/** The session that is to be remembered; `ids` are the entries in its context, if it is the one that runs. */
export interface Subject {
  sessionId: string; // as the daemon calls it
  nativeId: string | undefined; // as pi does; of several sessions with one id none has a document
  file: string;
  parent: string | undefined;
  cwd: string;
  leaf: string | undefined;
  ids?: string[];
  newestPrompt?: string;
  least?: number; // prompts since somebody else had it remembered: before, it is not due
  isTheirs?: () => boolean; // whether another extension remembers it by now
}

/** What it is done with. */
export interface Means {
  ask: Ask;
  registry: Registry;
  chosen: Chosen;
  budget: Budget;
  languages: () => Promise<readonly string[]>; // in which the person asks
  agentDirectory: string;
  signal: AbortSignal;
  asking: (retry: number, of: number) => void;
}

export interface Remembered {
  name: string;
  usage: Usage;
}

/** It did not work out; with what it cost, if a model was asked. */
export class NotRemembered extends Error {
  readonly usage: Usage | undefined;

  constructor(cause: unknown, usage: Usage | undefined) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.usage = usage;
  }
}

/** No answer was what had been asked for. */
export class Useless extends Error {}

/** Somebody else, or another pi, has remembered it, and little was said since. */
export class NotDue extends Error {}

export async function remember(subject: Subject, means: Means): Promise<Remembered> {
  const { ask, signal } = means;
  await ask("sync", { timeoutMs: SYNC_MS }, signal); // of everything: what the person has just excluded is not sent any more
  const { pending } = await ask<{ pending: { files: number } }>("sync", { paths: [subject.file], timeoutMs: SYNC_MS }, signal);
  const session = await ask<Meta>("get_session_meta", { sessionId: subject.sessionId }, signal);
  const conversation = await readConversation(ask, subject.sessionId, subject.ids, signal);
  if (pending.files > 0 || !hasAll(subject, conversation)) throw new Error("sesamed has not read all of this session yet; try again");
  if (!conversation.text) throw new Error("nobody has said anything in it");
  const upTo = session.generated?.upTo;
  if (typeof upTo === "number" && conversation.prompts.filter((number) => number > upTo).length < (subject.least ?? 0)) throw new NotDue();
  if (subject.isTheirs?.()) throw new NotDue(); // since it was due: what another extension does at the end of a run may come after us
  const at = new Date();
  const { annotations, usage } = await asked(makePrompt(session, conversation, await means.languages()), means);
  try {
    await store(subject, means, { session, conversation, at, annotations, costUsd: usage.cost.total });
  } catch (error) {
    throw new NotRemembered(error, usage);
  }
  return { name: annotations.name, usage };
}

/** Whether the newest prompt was among what was read: the daemon may know another session by this id, or not all of this one. */
function hasAll({ ids, newestPrompt }: Subject, { lastId }: Conversation): boolean {
  return !ids || newestPrompt === undefined || ids.indexOf(lastId ?? "") >= ids.indexOf(newestPrompt);
}

/** An answer that is not what was asked for is asked for again, twice; an error of the provider is not. */
async function asked(question: string, means: Means): Promise<{ annotations: Annotations; usage: Usage }> {
  const usages: Usage[] = [];
  let [prompt, wrong] = [question, ""];
  try {
    for (let number = 1; number <= TRIES; number += 1) {
      means.asking(number - 1, TRIES - 1);
      const said = await paid(prompt, means);
      usages.push(said.usage);
      try {
        return { annotations: parseAnswer(said.text), usage: sum(usages) as Usage };
      } catch (error) {
        if (!(error instanceof AnswerError)) throw error;
        wrong = error.message;
        prompt = makeRetry(question, said.text, error.errors);
      }
    }
  } catch (error) {
    if (error instanceof ModelError && error.usage) usages.push(error.usage);
    throw new NotRemembered(error, sum(usages));
  }
  throw new NotRemembered(new Useless(`no usable answer in ${TRIES} tries: ${wrong}`), sum(usages));
}

/** An answer that the day's budget allows. What a call has cost that was ended before its end nobody knows: it counts as what it may have. */
async function paid(prompt: string, { registry, chosen, budget, signal }: Means): Promise<Said> {
  const settle = budget.reserve(mayCost(chosen, prompt));
  try {
    const said = await complete(registry, chosen.model, prompt, { signal, maxTokens: MAX_TOKENS });
    settle(said.usage.cost.total);
    return said;
  } catch (error) {
    if (error instanceof ModelError && error.usage && !error.isCutOff) settle(error.usage.cost.total);
    throw error;
  }
}

/** In dollars, by pi's list of prices. */
function mayCost({ model: { cost, maxTokens } }: Chosen, prompt: string): number {
  const output = Math.min(MAX_TOKENS, maxTokens);
  return ((Buffer.byteLength(prompt) / TOKEN_BYTES) * cost.input + output * cost.output) / 1e6;
}

interface Kept {
  session: Meta;
  conversation: Conversation;
  at: Date;
  annotations: Annotations;
  costUsd: number;
}

/** In the daemon first, which refuses it where somebody else was faster; then beside pi's sessions. */
async function store(subject: Subject, { ask, chosen, agentDirectory, signal }: Means, { session, conversation, at, annotations, costUsd }: Kept): Promise<void> {
  signal.throwIfAborted();
  const { name, summary, description, tags, recallWords } = annotations;
  const generated = { model: chosen.key, at: at.toISOString(), upTo: conversation.upTo, costUsd };
  const seen = session.generated?.at ?? "";
  await ask("set_session_meta", { sessionId: subject.sessionId, title: name, summary, ...(description && { description }), tags, recallWords, generated, ifGenerated: seen }, signal);
  if (subject.nativeId === undefined) return;
  // A moment before: of what we say in both places that counts which knows the cost, and how much was read.
  const updatedAt = new Date(at.getTime() - 1).toISOString();
  writeMeta(metaPath(agentDirectory, subject.nativeId), {
    sessionId: subject.nativeId,
    sessionFile: subject.file,
    parentSessionFile: subject.parent,
    name,
    description: description ?? name,
    summary,
    tags,
    cwd: subject.cwd,
    updatedAt,
    model: chosen.key,
    lastIndexedLeafId: subject.leaf ?? conversation.lastId ?? "",
  });
}
