/** Tells the daemon which file grew, so that a search right after finds what was just said. Never starts it, never complains. */
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { call } from "./client.ts";
import { socketPath } from "./locations.ts";

const PATIENCE_MS = 1_000; // at the end somebody waits for it

export function registerFreshness(pi: ExtensionAPI): void {
  const tell = async (_event: unknown, ctx: ExtensionContext): Promise<void> => {
    const path = ctx.sessionManager.getSessionFile();
    if (path) await told(path);
  };
  const later = (event: unknown, ctx: ExtensionContext): void => void tell(event, ctx);
  pi.on("agent_settled", later);
  pi.on("agent_end", later); // all that pi before 0.80.4 has
  pi.on("session_info_changed", later); // a name
  pi.on("session_shutdown", tell);
}

async function told(path: string): Promise<void> {
  try {
    await call(socketPath(), "sync", { paths: [path], timeoutMs: PATIENCE_MS }, { timeoutMs: PATIENCE_MS });
  } catch {
    // the daemon sees it without us, a little later
  }
}
