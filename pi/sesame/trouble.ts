/** What goes wrong, as a person or a model can act on it. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { RpcError } from "./client.ts";
import { cut, day, line, word } from "./text.ts";

const SHOWN = 10;

export const NOT_FOUND = 1;
export const AMBIGUOUS = 2;

/** The error, with the sessions that fit when several do. */
export function explained(error: unknown): Error {
  if (!(error instanceof RpcError)) return error instanceof Error ? error : new Error(String(error));
  return new Error([cut(line(error.message), 1000), ...candidates(error).map((one) => `- ${one}`)].join("\n"));
}

/** The sessions that fit an ambiguous reference, a line each. */
export function candidates(error: RpcError): string[] {
  const { candidates: ids, sessions } = (error.data ?? {}) as { candidates?: unknown; sessions?: unknown };
  if (error.code !== AMBIGUOUS || !Array.isArray(ids)) return [];
  const about = Array.isArray(sessions) ? sessions : [];
  return ids.slice(0, SHOWN).map((id: unknown, index) => [word(String(id)), ...described(about[index])].join(" "));
}

function described(session: unknown): string[] {
  const { name, modified, cwd } = (session ?? {}) as Record<string, string | null | undefined>;
  return [...(name ? [JSON.stringify(cut(line(name), 80))] : []), ...(modified ? [day(modified)] : []), ...(cwd ? [word(cwd, 100)] : [])];
}

/** Something that is to be known, where the person sees it. */
export function notice(ctx: ExtensionContext, text: string, kind: "info" | "warning"): void {
  if (ctx.hasUI) ctx.ui.notify(text, kind);
  else console.error(text);
}
