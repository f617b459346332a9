import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseModel, complete, ModelError, type Registry, sum, type Usage } from "../sesame/model.ts";

const usage = (tokens: number, dollars: number): Usage => ({ input: tokens, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: tokens + 1, cost: { input: dollars, output: 0, cacheRead: 0, cacheWrite: 0, total: dollars } });

/** pi's register of models, as far as it is asked. */
function registry(answer: object = {}): { registry: Registry; asked: Record<string, any>[] } {
  const asked: Record<string, any>[] = [];
  const models: Record<string, object> = { "a/b": { input: ["text"], maxTokens: 100 }, "a/b/c": { input: ["text"], maxTokens: 9_000 }, "a/keyless": { input: ["text"] }, "a/painter": { input: ["image"] } };
  const made = {
    find: (provider: string, id: string) => models[`${provider}/${id}`],
    hasConfiguredAuth: (model: object) => model !== models["a/keyless"],
    streamSimple: (_model: object, context: object, options: object) => {
      asked.push({ ...context, ...options });
      return { result: async () => ({ stopReason: "stop", content: [{ type: "thinking", thinking: "…" }, { type: "text", text: "plum" }], usage: usage(3, 0.01), ...answer }) };
    },
  };
  return { registry: made as unknown as Registry, asked };
}

test("the first model that can be asked is taken, and no other than those that were chosen", () => {
  const { registry: all } = registry();
  assert.equal(chooseModel(all, ["a/none", "a/keyless", "a/painter", "a/b/c", "a/b"]).key, "a/b/c");
  assert.throws(() => chooseModel(all, ["a/none", "a/keyless", "a/painter"]), /^Error: pi knows no model a\/none; pi has no key for a\/keyless \(`\/login`\); a\/painter takes no text$/);
  assert.throws(() => chooseModel(all, []), /no model is chosen/);
});

test("an answer is its text, asked for once and remembered by no cache", async () => {
  const { registry: all, asked } = registry();
  const { model } = chooseModel(all, ["a/b"]);
  assert.deepEqual(await complete(all, model, "which?", { signal: new AbortController().signal, maxTokens: 4_000 }), { text: "plum", usage: usage(3, 0.01) });
  const [{ messages, maxRetries, maxTokens, cacheRetention, tools, reasoning }] = asked as [Record<string, any>];
  assert.equal(messages[0].content[0].text, "which?");
  assert.deepEqual([maxRetries, maxTokens, cacheRetention, tools, reasoning], [0, 100, "none", undefined, undefined]);
});

test("an error of the provider is one, with what it cost", async () => {
  const { registry: all } = registry({ stopReason: "error", errorMessage: "overloaded" });
  const { model } = chooseModel(all, ["a/b"]);
  await assert.rejects(complete(all, model, "which?", { signal: new AbortController().signal, maxTokens: 4_000 }), (error) => error instanceof ModelError && error.message === "overloaded" && error.usage?.cost.total === 0.01);
});

test("what takes too long is ended", async () => {
  const { registry: all } = registry();
  const slow = { ...all, streamSimple: (_m: object, _c: object, { signal }: { signal: AbortSignal }) => ({ result: () => new Promise((end) => signal.addEventListener("abort", () => end({ stopReason: "aborted", content: [], usage: usage(0, 0) }))) }) };
  const { model } = chooseModel(all, ["a/b"]);
  const awake = setInterval(() => {}, 1_000); // a deadline alone keeps no process running
  await assert.rejects(complete(slow as unknown as Registry, model, "?", { signal: new AbortController().signal, maxTokens: 1, timeoutMs: 5 }), /no answer within 0.005 s/);
  clearInterval(awake);
});

test("costs are added", () => {
  assert.equal(sum([]), undefined);
  assert.deepEqual(sum([usage(3, 0.01), usage(4, 0.02)]), { ...usage(7, 0.03), output: 2, totalTokens: 9 });
});
