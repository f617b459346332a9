/**
 * In which languages the person asks: `memory.languages` of sesame's own configuration, which `sesamectl remember` goes by as well.
 * sesamectl reads it (JSON5, its bounds), in 0.12 s of CPU, and is not run where the file does not even have the word.
 */
import { readFileSync } from "node:fs";
import type { Exec } from "../ask.ts";
import { isRecord } from "../client.ts";
import { clientProgram, configFile } from "../locations.ts";
import { cut, line } from "../text.ts";

const NAME = "languages";
const PATIENCE_MS = 30_000;

/** None, unless they are configured. Throws if the configuration is wrong: what would be left out is not made up for later. */
export async function readLanguages(exec: Exec, signal: AbortSignal): Promise<readonly string[]> {
  if (!isMentioned()) return [];
  const program = clientProgram();
  const { stdout, stderr, code } = await exec(program, ["config", "--json"], { timeout: PATIENCE_MS, signal });
  signal.throwIfAborted();
  if (code !== 0) throw new Error(`cannot read memory.${NAME}: ${cut(line(stderr), 400) || `${program} config ended with ${code}`}`);
  return languagesIn(stdout);
}

function isMentioned(): boolean {
  try {
    return readFileSync(configFile(), "utf8").includes(NAME);
  } catch {
    return false;
  }
}

function languagesIn(output: string): string[] {
  const { settings } = JSON.parse(output) as Record<string, unknown>;
  const setting = isRecord(settings) ? settings[`memory.${NAME}`] : undefined;
  const value = isRecord(setting) ? setting.value : undefined;
  return Array.isArray(value) ? value.map(String) : []; // an older sesamectl knows of none
}
