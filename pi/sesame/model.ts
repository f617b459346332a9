/** A model of the person's, with the login that pi has for it: which of those that were chosen can be asked, and one answer of it. */
import { randomUUID } from "node:crypto";
import type { AssistantMessage, Usage } from "@earendil-works/pi-ai";
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";

/** What each prompt of ours begins with: an agent that keeps the question as a session of its own would feed us with it. As in sesamed/model.py. */
export const PROMPT_MARKER = "[prompt by sesame, not to be indexed]";

export type Registry = ExtensionContext["modelRegistry"];
export type Model = NonNullable<ReturnType<Registry["find"]>>;
export type { Usage };

/** A model, by the name that the person gave it: `provider/id`. */
export interface Chosen {
  key: string;
  model: Model;
}

export interface Said {
  text: string;
  usage: Usage;
}

export interface Asking {
  signal: AbortSignal;
  maxTokens: number;
  timeoutMs?: number;
}

/** There is no answer. What it cost is known all the same, unless it was cut off. */
export class ModelError extends Error {
  readonly usage: Usage | undefined;
  readonly isCutOff: boolean;

  constructor(message: string, usage?: Usage, isCutOff = false) {
    super(message);
    this.name = "ModelError";
    this.usage = usage;
    this.isCutOff = isCutOff;
  }
}

/** The first of these that can be asked. Throws if none can: nobody's session goes to a model that was not chosen. */
export function chooseModel(registry: Registry, keys: readonly string[]): Chosen {
  const why: string[] = [];
  for (const key of keys) {
    const slash = key.indexOf("/");
    const model = registry.find(key.slice(0, slash), key.slice(slash + 1));
    if (!model) why.push(`pi knows no model ${key}`);
    else if (!model.input.includes("text")) why.push(`${key} takes no text`);
    else if (!registry.hasConfiguredAuth(model)) why.push(`pi has no key for ${key} (\`/login\`)`);
    else return { key, model };
  }
  throw new Error(why.join("; ") || "no model is chosen");
}

const TIMEOUT_MS = 180_000;

/** One answer to one prompt. Throws ModelError, also when it is aborted or takes too long. */
export async function complete(registry: Registry, model: Model, prompt: string, { signal, maxTokens, timeoutMs = TIMEOUT_MS }: Asking): Promise<Said> {
  signal.throwIfAborted();
  const deadline = AbortSignal.timeout(timeoutMs);
  const options = { signal: AbortSignal.any([signal, deadline]), maxTokens: Math.min(maxTokens, model.maxTokens), maxRetries: 0, cacheRetention: "none", sessionId: randomUUID() } as const;
  const answer = await answered(registry, model, prompt, options);
  if (signal.aborted || deadline.aborted) throw new ModelError(signal.aborted ? "aborted" : `no answer within ${timeoutMs / 1000} s`, answer.usage, true);
  if (answer.stopReason === "error" || answer.stopReason === "aborted") throw new ModelError(answer.errorMessage || answer.stopReason, answer.usage);
  return { text: answer.content.map((part) => (part.type === "text" ? part.text : "")).join(""), usage: answer.usage };
}

type Options = Omit<Asking, "timeoutMs"> & { maxRetries: number; cacheRetention: "none"; sessionId: string };

async function answered(registry: Registry, model: Model, prompt: string, options: Options): Promise<AssistantMessage> {
  const context = { messages: [{ role: "user" as const, content: [{ type: "text" as const, text: prompt }], timestamp: Date.now() }] };
  // Of a request that says nothing of thinking, the simple way makes one without; the other one leaves it to the model, which charges for it.
  if (typeof registry.streamSimple === "function") return registry.streamSimple(model, context, options).result();
  const auth = await registry.getApiKeyAndHeaders(model); // pi 0.74
  if (!auth.ok) throw new ModelError(auth.error);
  const { completeSimple } = (await import("@earendil-works/pi-ai")) as unknown as { completeSimple: (model: Model, given: object, how: object) => Promise<AssistantMessage> };
  return completeSimple(model, context, { ...options, apiKey: auth.apiKey, headers: auth.headers });
}

/** The usage of several answers together. */
export function sum(usages: readonly Usage[]): Usage | undefined {
  return usages.reduce<Usage | undefined>((all, one) => (all ? added(all, one) : one), undefined);
}

function added(one: Usage, other: Usage): Usage {
  const [a, b] = [one.cost, other.cost];
  return {
    input: one.input + other.input,
    output: one.output + other.output,
    cacheRead: one.cacheRead + other.cacheRead,
    cacheWrite: one.cacheWrite + other.cacheWrite,
    totalTokens: one.totalTokens + other.totalTokens,
    cost: { input: a.input + b.input, output: a.output + b.output, cacheRead: a.cacheRead + b.cacheRead, cacheWrite: a.cacheWrite + b.cacheWrite, total: a.total + b.total },
  };
}
