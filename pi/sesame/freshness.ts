/**
 * Tells the daemon which file grew, so that a search right after finds what was just said. Never starts it, never complains; but that a
 * session is kept where the daemon does not look (`pi --session-dir`), the person is told once: nothing else would ever say so.
 */
import { dirname } from "node:path";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { call } from "./client.ts";
import { socketPath } from "./locations.ts";
import { cut, line } from "./text.ts";
import { notice } from "./trouble.ts";

const PATIENCE_MS = 1_000; // at the end somebody waits for it

export function registerFreshness(pi: ExtensionAPI): void {
  const said = new Set<string>();
  const tell = async (ctx: ExtensionContext): Promise<boolean> => {
    const path = ctx.sessionManager.getSessionFile();
    return path === undefined || (await isSeen(path));
  };
  const later = async (_event: unknown, ctx: ExtensionContext): Promise<void> => {
    const { hasUI } = ctx;
    const directory = dirname(ctx.sessionManager.getSessionFile() ?? "");
    if ((await tell(ctx)) || !hasUI || said.has(directory)) return;
    said.add(directory);
    notice(ctx, `sesame does not look into ${cut(line(directory), 300)}, so this session will not be found: add the directory to "extraSources" in the configuration (\`sesamectl config\`)`, "warning");
  };
  const background = (event: unknown, ctx: ExtensionContext): void => void later(event, ctx).catch(() => {}); // pi may have moved on meanwhile
  pi.on("agent_settled", background);
  pi.on("agent_end", background); // all that pi before 0.80.4 has
  pi.on("session_info_changed", background); // a name
  pi.on("session_shutdown", async (_event, ctx) => void (await tell(ctx)));
}

/** Whether the daemon looks where this file is; also when it cannot be asked, for then it is known to no better. */
async function isSeen(path: string): Promise<boolean> {
  try {
    const { ignored } = await call<{ ignored?: unknown[] }>(socketPath(), "sync", { paths: [path], timeoutMs: PATIENCE_MS }, { timeoutMs: PATIENCE_MS });
    return !Array.isArray(ignored) || ignored.length === 0;
  } catch {
    return true; // the daemon sees it without us, a little later
  }
}
