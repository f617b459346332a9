/** The same questions through `sesamectl … --json`, for where this process cannot reach the socket itself. */
import type { Exec } from "./ask.ts";
import { clientProgram } from "./locations.ts";

const PATIENCE_MS = 30_000;
type Params = Record<string, unknown>;

interface Spoken {
  words: (params: Params) => string[];
  answer: (printed: Record<string, unknown>) => unknown;
}

const WHOLE = (printed: Record<string, unknown>): unknown => printed;

/** What `sesamectl` has a command for. Of a hub it asks together with this machine. */
const COMMANDS: Record<string, Spoken> = {
  search: { words: ({ query, timeWords, ...rest }) => ["search", ...flags({ ...rest, plain: !timeWords }), "--", String(query)], answer: WHOLE },
  list_sessions: { words: (params) => ["list", ...flags(params)], answer: WHOLE },
  list_messages: { words: ({ sessionId, ...rest }) => ["show", ...flags(rest), "--", String(sessionId)], answer: (printed) => printed.messages },
  resolve_session: { words: ({ ref, ...rest }) => ["resolve", ...flags(rest), "--", String(ref)], answer: WHOLE },
  get_session_meta: { words: ({ sessionId, ...rest }) => ["show", ...flags({ ...rest, limit: 1 }), "--", String(sessionId)], answer: (printed) => printed.session },
};

/** The method's result, as sesamectl prints it. */
export async function overClient<T>(exec: Exec, method: string, params: object, signal?: AbortSignal): Promise<T> {
  if (method === "hello") return {} as T; // what sesamectl would ask for itself
  const spoken = COMMANDS[method];
  if (!spoken) throw new Error(`sesamed's socket is out of reach, and sesamectl has no command for ${method}`);
  const words = spoken.words(params as Params);
  const ended = await exec(clientProgram(), words, { timeout: PATIENCE_MS, ...(signal && { signal }) });
  if (signal?.aborted) throw new Error(`${method}: aborted`);
  if (ended.code !== 0) throw new Error(ended.stderr.trim().slice(-400) || `sesamectl ${words[0]} ended with ${ended.code}`);
  return spoken.answer(JSON.parse(ended.stdout) as Record<string, unknown>) as T;
}

/** The time zone is sesamectl's, too: it runs where this process does. */
function flags({ scope, timeZone: _zone, ...params }: Params): string[] {
  const given = Object.entries({ ...params, hub: scope === "hub" || scope === "both" }).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => [name, one] as const));
  const flag = (name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  return ["--json", ...given.filter(([, value]) => value !== undefined && value !== false).map(([name, value]) => (value === true ? flag(name) : `${flag(name)}=${value}`))];
}
