/** What stands behind `/sessions`: words to look for, and filters as flags or as `name:value`. Pure. */
import type { Given } from "./schema.ts";

/** The filters, with what a completion says of each. */
export const FILTERS: Record<string, string> = {
  cwd: "a project's directory; . is this one",
  path: "a file that was touched, or a directory",
  source: "the agent that wrote it",
  after: "active since: 2026-03-01, yesterday, \"last week\", 7d",
  before: "begun before: 2026-03-01, monday, 2w",
  on: "active then: yesterday, \"last week\", april, 2026-03-01",
  role: "who said it: user, assistant",
  tool: "what was done: shell, edit, … or a tool's name",
  status: "how a call ended: error, success",
  scope: "where to look: here, hub, both",
  person: "whose sessions of other machines",
  workstation: "of which machine",
  project: "on whichever machine: acme/app",
};
const VALUES: Record<string, string[]> = {
  cwd: ["."],
  after: ["today", "yesterday", "monday", "7d", "1mo"],
  before: ["today", "monday", "7d", "1mo"],
  on: ["today", "yesterday", "monday"],
  role: ["user", "assistant"],
  tool: ["read", "write", "edit", "shell", "search", "web", "agent", "mcp"],
  status: ["error", "success"],
  scope: ["here", "hub", "both"],
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

/**
 * How the last word can go on: a flag, or the value of a filter. Each completion is all that stands behind the command. A plain word has
 * none, nor has `-word`, nor has a value that is whole: Enter would take the completion instead of sending the command.
 */
export function completions(text: string, sources: string[]): Completion[] | null {
  const filter = filterBegun(text);
  if (filter) {
    const { name, begun } = filter;
    const before = text.slice(0, text.length - begun.length);
    const values = (name === "source" ? sources : (VALUES[name] ?? [])).filter((value) => value !== begun && value.startsWith(begun));
    return some(values.map((value) => ({ value: `${before}${value} `, label: value })));
  }
  const flag = /(?:^|\s)--(\w*)$/.exec(text)?.[1];
  if (flag === undefined) return null;
  const named = Object.entries(FILTERS).filter(([name]) => name.startsWith(flag));
  return some(named.map(([name, description]) => ({ value: `${text.slice(0, text.length - flag.length)}${name} `, label: `--${name}`, description })));
}

/** The filter whose value is being typed, and the value so far. */
function filterBegun(text: string): { name: string; begun: string } | undefined {
  const [, name = "", begun = ""] = /(?:^|\s)(?:--)?(\w+)[=:](\S*)$/.exec(text) ?? /(?:^|\s)--(\w+)\s+(\S*)$/.exec(text) ?? [];
  return Object.hasOwn(FILTERS, name) ? { name, begun } : undefined;
}

function some(items: Completion[]): Completion[] | null {
  return items.length > 0 ? items : null;
}
