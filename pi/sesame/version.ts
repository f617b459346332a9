/** Which of two releases is newer: ours, or that of the daemon that answers. A newer one of ours is started by `sesamectl`, as its own clients do. */
import { readFileSync } from "node:fs";
import { call, isRecord } from "./client.ts";

const PATIENCE_MS = 500; // comparing versions must not hold a question back
/** The version of this package, which is that of the sesame that it came with. */
export const OURS: string = versionIn(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

function versionIn(manifest: string): string {
  const { version } = JSON.parse(manifest) as { version?: unknown };
  return String(version);
}

/** The version of the daemon that answers there; undefined when none says one. */
export async function theirs(path: string, signal?: AbortSignal): Promise<string | undefined> {
  try {
    const hello = await call<unknown>(path, "hello", { client: `pi ${OURS}` }, { signal, timeoutMs: PATIENCE_MS });
    return isRecord(hello) && typeof hello.version === "string" ? hello.version : undefined;
  } catch {
    return undefined; // what is wrong, the question itself will find out
  }
}

/** Whether one release is newer than another; not when either is no release's number. */
export function isNewer(one: string, other: string): boolean {
  const [mine, its] = [numbers(one), numbers(other)];
  if (!mine || !its) return false;
  for (let index = 0; index < Math.max(mine.length, its.length); index += 1) {
    const difference = (mine[index] ?? -1) - (its[index] ?? -1); // as Python compares tuples: 1.0 is older than 1.0.0
    if (difference !== 0) return difference > 0;
  }
  return false;
}

function numbers(version: string): number[] | undefined {
  return /^\d{1,9}(?:\.\d{1,9})*$/.test(version) ? version.split(".").map(Number) : undefined;
}

/** What to do where daemon and package are of different versions. */
export function advice(version: string): string {
  if (version === OURS) return "";
  return isNewer(version, OURS) ? `; sesamed ${version} is newer than this package, ${OURS}: update it (\`pi update\`)` : `; sesamed ${version} runs, and this package is of ${OURS}: \`sesamectl restart\``;
}
