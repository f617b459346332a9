/** Older sessions of pi's that are due, which were too short while they ran: some of them a day, when pi starts. */
import { closeSync, openSync, readSync } from "node:fs";
import type { Ask } from "../ask.ts";
import { isRecord } from "../client.ts";
import type { Listed, Session } from "../wire.ts";
import type { Budget } from "./budget.ts";
import type { Subject } from "./remembering.ts";

const SPARE = 20; // that others may have taken today
const HEADER_BYTES = 64 << 10;

/** Those that we take upon us today, the newest first, as they are asked for. */
export async function* due(ask: Ask, own: string, budget: Budget, most: number, signal: AbortSignal): AsyncGenerator<Subject> {
  const { sessions } = await ask<Listed>("list_sessions", { needsMemory: true, source: "pi", exclude: [own], limit: most + SPARE }, signal);
  for (const session of sessions) if (!session.gone && budget.claim(`pi:${session.sessionId}`, most)) yield subject(session);
}

function subject({ sessionId, path, cwd }: Session): Subject {
  const header = headerOf(path);
  const isShared = /~\d+$/.test(sessionId);
  return { sessionId: `pi:${sessionId}`, nativeId: isShared ? undefined : sessionId, file: path, parent: text(header.parentSession), cwd: cwd ?? text(header.cwd) ?? "", leaf: undefined };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The first line of a session's file, which says what it was begun from. */
function headerOf(path: string): Record<string, unknown> {
  try {
    const [file, bytes] = [openSync(path, "r"), Buffer.alloc(HEADER_BYTES)];
    try {
      const [first = ""] = bytes.toString("utf8", 0, readSync(file, bytes)).split("\n");
      const header: unknown = JSON.parse(first);
      return isRecord(header) ? header : {};
    } finally {
      closeSync(file);
    }
  } catch {
    return {}; // the daemon has what was said in it all the same
  }
}
