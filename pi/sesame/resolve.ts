/** Which sessions the references of a prompt mean: exactly one by id or whole name, or one that the person chooses. Never a guess. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { Ask } from "./ask.ts";
import { RpcError } from "./client.ts";
import { isExact, type Reference, withAncestors, words } from "./references.ts";
import { choice } from "./rows.ts";
import { line } from "./text.ts";
import { AMBIGUOUS, type Candidate, candidate, explained, fitting } from "./trouble.ts";
import type { Session } from "./wire.ts";

const NEAREST = 3;
const CHOICES = 9;
export const AS_IT_IS = "None: send the prompt as it is";

/** What becomes of a reference: a session, several that may be meant, or words for the person. */
export type Meaning = { reference: string; ancestors?: number } & ({ sessionId: string } | { fits: Candidate[]; isExact: boolean; why: string } | { trouble: string });

/** Where a prompt is typed: its session is never what it refers to. */
export interface Here {
  cwd: string;
  own: string;
}

/** What each reference means, in their order, as far as the daemon can be asked. */
export async function meanings(ask: Ask, found: Reference[], here: Here, signal?: AbortSignal): Promise<Meaning[]> {
  const all: Meaning[] = [];
  for (const reference of found)
    try {
      all.push(await meaning(ask, reference, here, signal));
    } catch (error) {
      if (signal?.aborted) throw error;
      all.push({ reference: reference.name, trouble: `@@${line(reference.name)}: ${explained(error).message}` });
      if (!(error instanceof RpcError)) break; // the daemon cannot be asked: not for the next one either
    }
  return all;
}

/** `~2` behind a name means two ancestors beside the session, unless that is just what a session is called. */
async function meaning(ask: Ask, { name: reference, everywhere }: Reference, { cwd, own }: Here, signal?: AbortSignal): Promise<Meaning> {
  const others = (fits: Candidate[]) => fits.filter(({ sessionId }) => sessionId !== own);
  const asked = (ref: string) => ask<Session>("resolve_session", { ref, ...(everywhere ? {} : { cwd }) }, signal);
  const more = withAncestors(reference);
  if (more && !(await asked(reference).then((session) => isExact(reference, session), isRefusal))) {
    const meant = await meaning(ask, { name: more.name, everywhere }, { cwd, own }, signal);
    return { ...meant, reference, ancestors: more.ancestors };
  }
  try {
    const session = await asked(reference);
    return isExact(reference, session) ? { reference, sessionId: session.sessionId } : unsure(reference, others([session]));
  } catch (error) {
    if (!(error instanceof RpcError) || error.code !== AMBIGUOUS) throw error;
    const fits = others(fitting(error));
    const same = fits.filter((one) => isExact(reference, one));
    return same.length > 0 ? { reference, fits: same, isExact: true, why: `@@${line(reference)}: ${explained(error).message}` } : unsure(reference, fits);
  }
}

/** The daemon knows no such session; whatever else is wrong is thrown. */
function isRefusal(error: unknown): false {
  if (error instanceof RpcError) return false;
  throw error;
}

/** Nothing is called just so. One word is as likely to be code, so nobody is asked about it. */
function unsure(reference: string, fits: Candidate[]): Meaning {
  const nearest = fits.slice(0, NEAREST).map((one) => candidate(one.sessionId, one));
  const trouble = `@@${line(reference)}: no session is called so, and no id begins so${nearest.length > 0 ? `; nearest: ${nearest.join("; ")}` : ""}. In backticks it is code`;
  return words(reference).length > 1 && fits.length > 0 ? { reference, fits, isExact: false, why: trouble } : { reference, trouble };
}

/** Which of these sessions the person means: null is none of them, undefined that the prompt is not to be sent. */
export async function chosen(ctx: ExtensionContext, reference: string, fits: Candidate[]): Promise<string | null | undefined> {
  const shown = fits.slice(0, CHOICES);
  const options = [...shown.map((one, index) => `${index + 1}  ${choice(one)}`), AS_IT_IS];
  const index = options.indexOf((await ctx.ui.select(`@@${line(reference)}: which session is meant?`, options)) ?? "");
  return index < 0 ? undefined : (shown[index]?.sessionId ?? null);
}
