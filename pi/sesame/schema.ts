/**
 * What the tools take, as JSON Schema: plain objects, so that every pi since 0.74 takes them without a library. Which of it
 * goes to the daemon, and in which form.
 */
import { homedir } from "node:os";
import { resolve } from "node:path";
import { instant } from "./text.ts";

const text = (description: string) => ({ type: "string", description });
const whole = (description: string, minimum: number, maximum: number) => ({ type: "integer", minimum, maximum, description });
const choice = (values: string[], description: string) => ({ type: "string", enum: values, description });
const object = (properties: Record<string, object>, required: string[]) => ({ type: "object", properties, required, additionalProperties: false });

const PLACE = {
  cwd: text('Only sessions of this project directory, its subdirectories and worktrees; "." is the current one'),
  after: text("Active since: a local date or time (2025-12-15, 2025-12-15T18:30) or a span back from now (30min, 12h, 7d, 2w, 1mo)"),
  before: text("Begun before: a date, time or span like after"),
  source: text("Only sessions of this agent, by the source that results give"),
};
const WITHIN = {
  role: choice(["user", "assistant"], "Only messages of this role"),
  tool: text("Only tool calls, by what they do (read, write, edit, shell, search, web, agent, mcp) or by a tool's name, as any agent calls it; =bash is exactly this name"),
  path: text("Only where a tool call touched this file, or a file below this directory; config.ts finds src/config.ts"),
  status: choice(["success", "error"], "Only tool calls that ended so"),
};
const SIMILAR = text("Only the sessions that are shown as one with this one, each by itself; the id of a hit that says there are some");
const OFFSET = whole("Leave out the first so many", 0, 100_000);

export const SEARCH = object(
  {
    query: text('Words to look for, as somebody would have said them; any of them count, the rarer the more. "a phrase", -word and pre* are understood. An empty one lists the newest'),
    ...PLACE,
    ...WITHIN,
    similarTo: SIMILAR,
    sort: choice(["relevance", "recent"], "Best first (default) or newest first"),
    limit: whole("Most sessions, default 8", 1, 20),
    offset: OFFSET,
  },
  ["query"],
);

export const LIST = object({ ...PLACE, path: WITHIN.path, limit: whole("Most sessions, default 20", 1, 50), offset: OFFSET }, []);

export const READ = object(
  {
    session: text("The session: its id, the beginning of it, or its name; ~1 behind it is the session that it was begun from"),
    around: whole("Show the messages around this one, a hit's message number", 0, 10_000_000),
    offset: whole("Begin with this message; the default is 0", 0, 10_000_000),
    limit: whole("Most messages, default 20", 1, 50),
    textOffset: whole("Begin at this character of each message: to go on in a long one", 0, 1_000_000_000),
  },
  ["session"],
);

export type Given = Record<string, string | number | undefined>;

/** The params of `search` and `list_sessions` for what the model gave. */
export function filters(given: Given, here: string): Record<string, unknown> {
  const { cwd, after, before, ...rest } = given;
  const known = Object.fromEntries(Object.entries(rest).filter(([name, value]) => name in { ...PLACE, ...WITHIN, similarTo: SIMILAR } && value !== undefined && value !== ""));
  return {
    ...known,
    ...(cwd && { cwd: directory(String(cwd), here) }),
    ...(after && { after: instant(String(after)) }),
    ...(before && { before: instant(String(before)) }),
  };
}

/** The params with what `tool` means: a family of tools, if it names one or a tool in one; otherwise a tool, and so does `=NAME`. */
export function chooseTools({ tool, ...rest }: Record<string, unknown>, families: Record<string, string[]>): Record<string, unknown> {
  if (typeof tool !== "string") return rest;
  const given = tool.toLowerCase();
  const found = Object.hasOwn(families, given) ? [given] : Object.keys(families).filter((family) => families[family]?.some((name) => name.toLowerCase() === given));
  return found.length > 0 ? { ...rest, toolFamily: found } : { ...rest, tool: tool.replace(/^=/, "") };
}

/** A directory as somebody in `here` means it. */
export function directory(path: string, here: string): string {
  return resolve(here, path.replace(/^~(?=\/|$)/, homedir()));
}
