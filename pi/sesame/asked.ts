/** What stands behind `/sessions`: words to look for, and filters as flags or as `name:value`. Pure. */
import type { Given } from "./schema.ts";

/** The filters, with what a completion says of each. */
export const FILTERS: Record<string, string> = {
  cwd: "a project's directory; . is this one",
  path: "a file that was touched, or a directory",
  source: "the agent that wrote it",
  after: "active since: 2026-03-01, 7d, 12h",
  before: "begun before: 2026-03-01, 2w",
  role: "who said it: user, assistant",
  tool: "what was done: shell, edit, … or a tool's name",
  status: "how a call ended: error, success",
};
const VALUES: Record<string, string[]> = {
  cwd: ["."],
  after: ["1d", "7d", "1mo"],
  before: ["1d", "7d", "1mo"],
  role: ["user", "assistant"],
  tool: ["read", "write", "edit", "shell", "search", "web", "agent", "mcp"],
  status: ["error", "success"],
};
const WORDS = /(-?)"([^"]*)(?:"|$)|(?:"[^"]*"|[^\s"])+/g; // a phrase keeps its quotes, for it means one
const FLAG = /^--([\w-]+)(?:=([\s\S]*))?$/;
const PAIR = /^(\w+):([\s\S]+)$/;

/** The words and the filters. */
export function asked(text: string): { query: string; given: Given } {
  const words = [...text.matchAll(WORDS)].map(([word]) => word);
  const given: Given = {};
  const query: string[] = [];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    const [, flag, value] = FLAG.exec(word) ?? [];
    const [, name = "", meant = ""] = PAIR.exec(word) ?? [];
    if (flag !== undefined) given[known(flag)] = unquoted(value ?? following(flag, words));
    else if (Object.hasOwn(FILTERS, name)) given[name] = unquoted(meant);
    else query.push(word);
  }
  return { query: query.join(" "), given };
}

function known(flag: string): string {
  if (Object.hasOwn(FILTERS, flag)) return flag;
  throw new Error(`there is no filter --${flag}; there are ${Object.keys(FILTERS).map((name) => `--${name}`).join(", ")}`);
}

function following(flag: string, words: string[]): string {
  const value = words.shift();
  if (value === undefined) throw new Error(`--${flag} needs a value: ${FILTERS[flag]}`);
  return value;
}

function unquoted(value: string): string {
  return value.replace(/^"(.*?)"?$/s, "$1");
}

export interface Completion {
  value: string;
  label: string;
  description?: string;
}

/** How the last word can go on: it names a filter, or gives one its value. Each value is all that stands behind the command. */
export function completions(text: string, sources: string[]): Completion[] | null {
  const before = text.slice(0, text.length - (/\S*$/.exec(text)?.[0].length ?? 0));
  const last = text.slice(before.length);
  const [, sign, name, begun = ""] = /^(--)?(\w+)[=:](\S*)$/.exec(last) ?? /^(--)(\w+)\s+(\S*)$/.exec(`${/--\w+\s+$/.exec(before)?.[0] ?? ""}${last}`) ?? [];
  if (name !== undefined && Object.hasOwn(FILTERS, name)) {
    const kept = text.slice(0, text.length - begun.length);
    const values = name === "source" ? sources : (VALUES[name] ?? []);
    return some(values.filter((value) => value.startsWith(begun)).map((value) => ({ value: `${kept}${value} `, label: value })));
  }
  if (sign !== undefined || (last === "" && before !== "")) return null;
  const typed = last.replace(/^--?/, "");
  if (last === "" || last.startsWith("-")) return some(named(typed).map((one) => ({ value: `${before}--${one} `, label: `--${one}`, description: FILTERS[one] ?? "" })));
  return some(named(typed).map((one) => ({ value: `${before}${one}:`, label: `${one}:`, description: FILTERS[one] ?? "" })));
}

function named(typed: string): string[] {
  return Object.keys(FILTERS).filter((name) => name.startsWith(typed));
}

function some(items: Completion[]): Completion[] | null {
  return items.length > 0 ? items : null;
}
