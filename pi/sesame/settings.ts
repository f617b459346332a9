/**
 * Which models may be asked, and how session memory is written: `session-index.config.json` in pi's own directory. Where there is
 * none, or it names no model, nothing is ever asked.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isRecord } from "./client.ts";

const NAME = "session-index.config.json";

export interface Settings {
  commandName: string;
  statusKey: string;
  minNewUserMessages: number;
  notificationAutoClearMs: number;
  modelKeys: string[]; // `provider/id`, the preferred one first
  backfill: number; // sessions a day
  budgetCents: number; // a day
  waitInPrintMode: boolean;
}

export const DEFAULTS: Settings = {
  commandName: "index-session",
  statusKey: "session-index",
  minNewUserMessages: 5,
  notificationAutoClearMs: 10_000,
  modelKeys: [],
  backfill: 0,
  budgetCents: 50,
  waitInPrintMode: false,
};

type Rule = readonly [expected: string, isRight: (value: unknown) => boolean];

const within = (least: number, most: number, what = "a number"): Rule => [`${what} from ${least} to ${most}`, (value) => typeof value === "number" && value >= least && value <= most];
const whole = (least: number, most: number): Rule => [`a whole number from ${least} to ${most}`, (value) => Number.isInteger(value) && Number(value) >= least && Number(value) <= most];
const name = (form: RegExp, expected: string): Rule => [expected, (value) => typeof value === "string" && form.test(value)];

const RULES: Record<keyof Settings, Rule> = {
  commandName: name(/^[A-Za-z0-9][\w:-]{0,59}$/, "a command's name without a slash"),
  statusKey: name(/^\S.{0,59}$/, "a name"),
  minNewUserMessages: whole(1, 1_000),
  notificationAutoClearMs: whole(0, 3_600_000),
  modelKeys: ['a list of models such as ["provider/model"]', (value) => Array.isArray(value) && value.every((key) => typeof key === "string" && /^[^/\s]+\/\S+$/.test(key))],
  backfill: whole(0, 1_000),
  budgetCents: within(0, 100_000),
  waitInPrintMode: ["true or false", (value) => typeof value === "boolean"],
};

export function settingsFile(agentDirectory: string): string {
  return join(agentDirectory, NAME);
}

/** What is chosen. Throws if the file is there and cannot be what was meant. */
export function readSettings(agentDirectory: string): Settings {
  const file = settingsFile(agentDirectory);
  const given = parsed(file);
  if (given === undefined) return DEFAULTS;
  if (!isRecord(given)) throw new Error(`${file}: expected an object with any of ${Object.keys(RULES).join(", ")}`);
  for (const [key, value] of Object.entries(given)) {
    const rule = Object.hasOwn(RULES, key) ? RULES[key as keyof Settings] : undefined;
    if (!rule) throw new Error(`${file}: there is no setting ${JSON.stringify(key)}; there are ${Object.keys(RULES).join(", ")}`);
    if (!rule[1](value)) throw new Error(`${file}: ${key}: expected ${rule[0]}`);
  }
  return { ...DEFAULTS, ...given };
}

function parsed(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Error(`cannot read ${file}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
  }
  try {
    return JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (error) {
    throw new Error(`${file} is not valid JSON: ${(error as Error).message}`);
  }
}
