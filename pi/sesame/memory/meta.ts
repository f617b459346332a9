/**
 * What a model wrote of a session of pi's, beside pi's sessions: `sessions-meta/<id>.meta.json`. Its twelve fields are those of the
 * extension session-index, whose files these are, and of whatever else reads them: there is no place in it for recall words.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { randomUUID } from "node:crypto";
import { isRecord } from "../client.ts";
import { clean, cut, line } from "../text.ts";

export interface MetaFile {
  sessionId: string;
  sessionFile: string;
  parentSessionFile: string | undefined;
  name: string;
  description: string;
  summary: string;
  tags: string[];
  cwd: string;
  createdAt: string;
  updatedAt: string;
  model: string;
  lastIndexedLeafId: string;
}

const TEXTS = ["sessionId", "sessionFile", "name", "description", "summary", "cwd", "createdAt", "updatedAt", "model", "lastIndexedLeafId"] as const;
const [MAX_NAME, MAX_DESCRIPTION, MAX_SUMMARY, MAX_TAG, MAX_TAGS] = [120, 1_200, 8_000, 80, 12]; // what session-index takes for whole

const AHEAD_MS = 60_000; // of this clock

export function metaPath(agentDirectory: string, sessionId: string): string {
  return join(agentDirectory, "sessions-meta", `${basename(sessionId)}.meta.json`);
}

/** What stands there: undefined if there is nothing, an error's text if it is not what it ought to be. */
export function readMeta(path: string): MetaFile | string | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    const wrong = isRecord(value) ? flawIn(value) : "it is no object";
    return wrong ?? (value as unknown as MetaFile);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? undefined : line((error as Error).message);
  }
}

function flawIn(value: Record<string, unknown>): string | undefined {
  const wrong = TEXTS.find((name) => typeof value[name] !== "string");
  if (wrong) return `${wrong} is no text`;
  const updated = Date.parse(String(value.updatedAt));
  if (Number.isNaN(updated)) return "updatedAt is no time";
  if (updated > Date.now() + AHEAD_MS) return "updatedAt is in the future"; // nothing would ever be newer
  return Array.isArray(value.tags) && value.tags.every((tag) => typeof tag === "string") ? undefined : "tags is no list of texts";
}

/** Write it as a whole, unless what stands there is newer: whoever wrote that has seen more. One that is corrupt counts as none. */
export function writeMeta(path: string, meta: Omit<MetaFile, "createdAt">): boolean {
  const there = readMeta(path);
  const old = typeof there === "object" ? there : undefined;
  if (old && Date.parse(old.updatedAt) > Date.parse(meta.updatedAt)) return false;
  const kept: MetaFile = {
    ...meta,
    name: cut(line(meta.name), MAX_NAME),
    description: cut(clean(meta.description), MAX_DESCRIPTION),
    summary: cut(clean(meta.summary), MAX_SUMMARY),
    tags: meta.tags.slice(0, MAX_TAGS).map((tag) => cut(line(tag), MAX_TAG)),
    createdAt: old?.createdAt ?? meta.updatedAt,
  };
  const { sessionId, sessionFile, parentSessionFile, name, description, summary, tags, cwd, createdAt, updatedAt, model, lastIndexedLeafId } = kept;
  replace(path, `${JSON.stringify({ sessionId, sessionFile, parentSessionFile, name, description, summary, tags, cwd, createdAt, updatedAt, model, lastIndexedLeafId }, null, 2)}\n`);
  return true;
}

function replace(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const beside = `${path}.${randomUUID()}.tmp`;
  try {
    writeFileSync(beside, text, { mode: 0o600, flush: true, flag: "wx" });
    renameSync(beside, path);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
}
