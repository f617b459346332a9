/**
 * sesame for pi: tools for the model, `/sessions` and `@@` for the person. Loading it opens and starts nothing, and registers no name:
 * pi does not start when two extensions have tools of one name, so ours look for free ones when the session starts.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { registerCommand } from "./command.ts";
import { Names, provider } from "./completion.ts";
import { registerFreshness } from "./freshness.ts";
import { registerMemory } from "./memory/memory.ts";
import { CUSTOM_TYPE } from "./references.ts";
import { referenceLine } from "./render.ts";
import { registerPrompts } from "./prompts.ts";
import { call } from "./client.ts";
import { freeNames, registerTools, type ToolNames } from "./tools.ts";
import { socketPath } from "./locations.ts";
import { notice } from "./trouble.ts";

/** What all copies of this package in one process share: which of them serves a session, and what the person has been told. */
interface Shared {
  serving: WeakMap<object, string>;
  told: Set<string>;
}

const KEY = Symbol.for("sesame-pi");
const HERE = import.meta.url;

export default function sesame(pi: ExtensionAPI): void {
  pi.registerMessageRenderer(CUSTOM_TYPE, referenceLine);
  let tools: ToolNames | undefined;
  let remember: (ctx: ExtensionContext) => void = () => {};
  pi.on("session_start", (_event, ctx) => {
    const { serving } = shared();
    const other = serving.get(ctx.sessionManager);
    if (other !== undefined && other !== HERE) return tell(ctx, `sesame is installed twice: ${directory(other)} is used, and ${directory(HERE)} is not; \`pi list\` shows them, \`pi remove\` removes one`);
    serving.set(ctx.sessionManager, HERE);
    if (!tools) {
      tools = serve(pi, ctx);
      remember = registerMemory(pi, tell);
    }
    remember(ctx);
    const names = new Names((method, params, signal) => call(socketPath(), method, params, { signal, timeoutMs: 2_000 }), ctx.sessionManager.getSessionId(), ctx.cwd);
    ctx.ui.addAutocompleteProvider?.((current) => provider(current, names)); // forks of pi lack it
  });
  // The skill is the way for whoever has no tools: two ways in one prompt cost tokens each turn, and the question which to take.
  pi.on("resources_discover", () => (tools && !pi.getActiveTools().includes(tools.search) ? { skillPaths: [join(directory(HERE), "skills")] } : {}));
  pi.on("session_shutdown", (_event, ctx) => {
    const { serving } = shared();
    if (serving.get(ctx.sessionManager) === HERE) serving.delete(ctx.sessionManager);
  });
}

function serve(pi: ExtensionAPI, ctx: ExtensionContext): ToolNames {
  const tools = freeNames(new Set(pi.getAllTools().map((tool) => tool.name)));
  const command = pi.getCommands().some((one) => one.name === "sessions") ? "sesame-sessions" : "sessions";
  registerTools(pi, tools);
  registerCommand(pi, command, tools.read);
  registerPrompts(pi, tools.read);
  registerFreshness(pi);
  const changed = [...Object.values(tools), `/${command}`].filter((name) => /^\/?sesame[_-]/.test(name));
  if (changed.length > 0) tell(ctx, `sesame: another extension has the names of some of its tools or commands; here they are ${changed.join(", ")}`);
  return tools;
}

/** Say it once, however often sessions start. */
function tell(ctx: ExtensionContext, text: string): void {
  const { told } = shared();
  if (!told.has(text)) notice(ctx, text, "warning");
  told.add(text);
}

function shared(): Shared {
  const everything = globalThis as { [KEY]?: Shared };
  return (everything[KEY] ??= { serving: new WeakMap(), told: new Set() });
}

function directory(url: string): string {
  return fileURLToPath(new URL("..", url));
}
