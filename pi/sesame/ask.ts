/**
 * A question to the daemon, whatever it takes: over the socket; if nothing listens, `sesamectl` starts the daemon; if the
 * socket is still out of reach, `sesamectl` asks. What the daemon itself refuses is thrown, and nobody else is asked then.
 */
import { overClient } from "./fallback.ts";
import { call, isRecord, RpcError, TIMEOUT_MS, Unreachable } from "./client.ts";
import { clientProgram, socketPath } from "./locations.ts";
import { flaw } from "./shape.ts";
import { advice, isNewer, OURS, theirs } from "./version.ts";

export type Exec = (
  command: string,
  args: string[],
  options: { signal?: AbortSignal; timeout?: number },
) => Promise<{ stdout: string; stderr: string; code: number }>;

/** How the answers came. A question that needs several calls keeps one, so that the daemon is started once. */
export interface Way {
  via: "socket" | "sesamectl";
  started: boolean;
  path: string;
  timeoutMs: number;
}

export type Ask = <T>(method: string, params: object, signal?: AbortSignal) => Promise<T>;

export const STARTED = "sesamed was not running and has been started";
const START_MS = 30_000;
const FIRST_READ_MS = 10_000; // how long the first question waits for the first index

export function way(timeoutMs = TIMEOUT_MS): Way {
  return { via: "socket", started: false, path: socketPath(), timeoutMs };
}

/** Something that asks, and notes on `how` in which way it did. */
export function asker(exec: Exec, how: Way): Ask {
  return async <T>(method: string, params: object, signal?: AbortSignal): Promise<T> => {
    const result = await asked<T>(exec, how, method, params, signal);
    const wrong = flaw(method, result);
    if (wrong) throw new Error(`${how.via === "socket" ? `what answers at ${how.path}` : clientProgram()} gave an answer to ${method} that is none (${wrong}); update sesame, and \`sesamectl restart\``);
    return result;
  };
}

async function asked<T>(exec: Exec, how: Way, method: string, params: object, signal?: AbortSignal): Promise<T> {
  if (how.via === "sesamectl") return overClient<T>(exec, method, params, signal);
  await settle(exec, how.path, signal);
  try {
    return await call<T>(how.path, method, params, { signal, timeoutMs: how.timeoutMs });
  } catch (error) {
    if (error instanceof RpcError && REFUSED.has(error.code)) throw new RpcError(error.code, error.message + advice((await theirs(how.path, signal)) ?? OURS), error.data);
    if (!(error instanceof Unreachable)) throw error;
  }
  return afterStart<T>(exec, how, method, params, signal);
}

const REFUSED = new Set([-32601, -32602]); // a method or a parameter that it does not know
const settled = new Set<string>();

/**
 * An older daemon goes on for as long as nobody of a newer version asks it, and a person may only ever use pi. So the first question
 * of this process compares versions, and a command of `sesamectl` that asks (`status` only reports) restarts an older one, as for everybody else.
 */
async function settle(exec: Exec, path: string, signal?: AbortSignal): Promise<void> {
  if (settled.has(path)) return;
  const version = await theirs(path, signal);
  if (version === undefined) return;
  settled.add(path);
  if (isNewer(OURS, version) && mayStart()) await exec(clientProgram(), ["list", "--json", "--limit=1"], { timeout: START_MS, ...(signal && { signal }) });
}

async function afterStart<T>(exec: Exec, how: Way, method: string, params: object, signal?: AbortSignal): Promise<T> {
  how.path = await start(exec, how.path, signal);
  how.started = true;
  try {
    await call(how.path, "sync", { timeoutMs: FIRST_READ_MS }, { signal });
    return await call<T>(how.path, method, params, { signal });
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
  }
  how.via = "sesamectl";
  return overClient<T>(exec, method, params, signal);
}

function mayStart(): boolean {
  return ["", "0"].includes(process.env.SESAME_NO_START ?? "");
}

/** Start the daemon; gives where it listens. */
async function start(exec: Exec, path: string, signal?: AbortSignal): Promise<string> {
  if (!mayStart()) throw new Unreachable(`${path}, and SESAME_NO_START is set`);
  const program = clientProgram();
  const ended = await exec(program, ["start", "--json"], { timeout: START_MS, ...(signal && { signal }) });
  if (ended.code === 0) return said(ended.stdout) ?? path;
  const why = ended.stderr.trim().slice(-400);
  if (ended.code === 1 && (!why || why.includes("ENOENT")))
    throw new Error(`nothing listens at ${path}, and there is no \`${program}\` to start sesamed; install sesame, or set SESAMECTL to the program`);
  throw new Error(`nothing listens at ${path}, and sesamed could not be started: ${why || `exit ${ended.code}`}`);
}

function said(output: string): string | undefined {
  try {
    const answer: unknown = JSON.parse(output);
    return isRecord(answer) && typeof answer.socket === "string" ? answer.socket : undefined;
  } catch {
    return undefined;
  }
}
