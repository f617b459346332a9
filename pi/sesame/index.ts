/** sesame for pi: tools for the model, `/sessions` and `@@` for the person. Loading it opens and starts nothing. */
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { registerCommand } from "./command.ts";
import { Names, provider } from "./completion.ts";
import { registerFreshness } from "./freshness.ts";
import { CUSTOM_TYPE } from "./references.ts";
import { referenceLine } from "./render.ts";
import { registerReferences } from "./resolve.ts";
import { call } from "./client.ts";
import { registerTools } from "./tools.ts";
import { socketPath } from "./locations.ts";

export default function sesame(pi: ExtensionAPI): void {
  registerTools(pi);
  registerCommand(pi);
  registerReferences(pi);
  registerFreshness(pi);
  pi.registerMessageRenderer(CUSTOM_TYPE, referenceLine);
  pi.on("session_start", (_event, ctx) => {
    const names = new Names((method, params, signal) => call(socketPath(), method, params, { signal, timeoutMs: 2_000 }), ctx.sessionManager.getSessionId(), ctx.cwd);
    ctx.ui.addAutocompleteProvider?.((current) => provider(current, names)); // forks of pi lack it
  });
}
