/**
 * One call over the daemon's socket: a method and its params in, the result out, or an error that says what to do.
 *
 * A connection a call: closing it ends what runs, so an abort costs the daemon nothing. No imports of pi.
 */
import { existsSync } from "node:fs";
import { Socket } from "node:net";
import { dirname } from "node:path";
import { Lines, TooLong } from "./lines.ts";
import { isPrivate } from "./locations.ts";

export const TIMEOUT_MS = 15_000; // a query's own deadline is 10 s: the daemon is the first to say so
export const MAX_ANSWER_BYTES = 4 << 20;
export const MAX_SOCKET_BYTES = 103; // sun_path holds 104 bytes on macOS (108 on Linux), and the last one is NUL
const NOBODY = new Set(["ENOENT", "ECONNREFUSED", "ENOTSOCK"]);

/** The daemon's own refusal. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** Nothing listens there. The only error that somebody else may be asked after. */
export class Unreachable extends Error {
  readonly path: string;

  constructor(path: string) {
    super(`sesamed is not running: nothing listens at ${path}`);
    this.name = "Unreachable";
    this.path = path;
  }
}

export interface How {
  signal?: AbortSignal | undefined;
  timeoutMs?: number;
  maxBytes?: number;
}

/** The method's result. */
export async function call<T>(path: string, method: string, params: object, how: How = {}): Promise<T> {
  const { signal, timeoutMs = TIMEOUT_MS, maxBytes = MAX_ANSWER_BYTES } = how;
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    signal?.throwIfAborted();
    return await exchanged<T>(path, request(method, params), AbortSignal.any(signal ? [signal, deadline] : [deadline]), maxBytes);
  } catch (error) {
    if (signal?.aborted) throw new Error(`${method}: aborted`);
    if (deadline.aborted) throw new Error(`sesamed at ${path} did not answer ${method} within ${timeoutMs / 1000} s; try again, or \`sesamectl restart\``);
    throw error;
  }
}

const ID = 1; // of the only request on a connection

function request(method: string, params: object): string {
  return `${JSON.stringify({ jsonrpc: "2.0", id: ID, method, params })}\n`;
}

async function exchanged<T>(path: string, line: string, signal: AbortSignal, maxBytes: number): Promise<T> {
  const socket = new Socket({ signal });
  try {
    checkPlace(path);
    socket.connect(path);
    socket.write(line);
    return await answered<T>(path, socket, maxBytes);
  } catch (error) {
    throw explained(path, error);
  } finally {
    socket.destroy();
  }
}

/** Whoever may write there could listen in the daemon's place. */
function checkPlace(path: string): void {
  if (Buffer.byteLength(path) > MAX_SOCKET_BYTES) throw new Error(`socket path too long: ${path} has more than ${MAX_SOCKET_BYTES} bytes; set SESAME_SOCKET`);
  if (!existsSync(path)) throw new Unreachable(path);
  const directory = dirname(path);
  if (!isPrivate(directory)) throw new Error(`${directory} is not a directory that only you can open, so nothing was sent; see \`sesamectl doctor\``);
}

async function answered<T>(path: string, socket: Socket, maxBytes: number): Promise<T> {
  const lines = new Lines(maxBytes);
  for await (const chunk of socket)
    for (const line of lines.push(chunk as Buffer)) {
      const message = parsed(path, line);
      if (!("method" in message)) return result<T>(path, message);
    }
  throw new Error(`sesamed at ${path} closed the connection before it answered; try again`);
}

type Message = Record<string, unknown>;

function parsed(path: string, line: string): Message {
  let message: unknown;
  try {
    message = JSON.parse(line);
  } catch {
    message = undefined;
  }
  if (!isRecord(message) || message.jsonrpc !== "2.0") throw foreign(path);
  return message;
}

function result<T>(path: string, message: Message): T {
  const { error, result: found, id } = message;
  if (id !== ID && !(id === null && error !== undefined)) throw foreign(path); // an error before the id was read has none
  if (isRecord(error) && typeof error.code === "number") throw new RpcError(error.code, String(error.message), error.data);
  if (!isRecord(found)) throw foreign(path);
  return found as T;
}

function explained(path: string, error: unknown): unknown {
  if (error instanceof TooLong) return new Error(`what answers at ${path} sends ${error.message}; ask for less`);
  const code = (error as NodeJS.ErrnoException).code;
  if (code && NOBODY.has(code)) return new Unreachable(path);
  if (code === "ECONNRESET" || code === "EPIPE") return new Error(`sesamed at ${path} closed the connection before it answered; try again`);
  return error;
}

function foreign(path: string): Error {
  return new Error(`what answers at ${path} does not speak sesame's protocol; set SESAME_SOCKET`);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
