/** What goes wrong, as a person or a model can act on it. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { RpcError } from "./client.ts";
import { cut, day, line, word } from "./text.ts";
import type { Session } from "./wire.ts";

const SHOWN = 10;

export type Candidate = Pick<Session, "sessionId" | "name" | "modified" | "cwd">;

export const NOT_FOUND = 1;
export const AMBIGUOUS = 2;
export const NO_HUB = 9; // there is none, or it does not answer

/** The error, with the sessions that fit when several do. */
export function explained(error: unknown): Error {
  if (!(error instanceof RpcError)) return error instanceof Error ? error : new Error(String(error));
  return new Error([cut(line(error.message), 1000), ...candidates(error).map((one) => `- ${one}`)].join("\n"));
}

/** The sessions that fit an ambiguous reference, a line each. */
export function candidates(error: RpcError): string[] {
  const { candidates: ids } = (error.data ?? {}) as { candidates?: unknown };
  if (error.code !== AMBIGUOUS || !Array.isArray(ids)) return [];
  const about = fitting(error);
  return ids.slice(0, SHOWN).map((id: unknown, index) => candidate(String(id), about[index]));
}

/** What the daemon says of the sessions that fit. */
export function fitting(error: RpcError): Candidate[] {
  const { sessions } = (error.data ?? {}) as { sessions?: unknown };
  return Array.isArray(sessions) ? sessions : [];
}

/** A session in a line from which it can be chosen. */
export function candidate(id: string, session: Partial<Candidate> = {}): string {
  return [word(id), ...described(session)].join(" ");
}

function described({ name, modified, cwd }: Partial<Candidate>): string[] {
  return [...(name ? [JSON.stringify(cut(line(name), 80))] : []), ...(modified ? [day(modified)] : []), ...(cwd ? [word(cwd, 100)] : [])];
}

/** Something that is to be known, where the person sees it. */
export function notice(ctx: ExtensionContext, text: string, kind: "info" | "warning"): void {
  if (ctx.hasUI) ctx.ui.notify(text, kind);
  else console.error(text);
}
