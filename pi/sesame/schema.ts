/**
 * What the tools take, as JSON Schema: plain objects, so that every pi since 0.74 takes them without a library. Which of it
 * goes to the daemon, and in which form.
 */
import { homedir } from "node:os";
import { resolve } from "node:path";
import { zone } from "./zone.ts";

const text = (description: string) => ({ type: "string", description });
const whole = (description: string) => ({ type: "integer", description });
const choice = (values: string[], description: string) => ({ type: "string", enum: values, description });
const object = (properties: Record<string, object>, required: string[]) => ({ type: "object", properties, required, additionalProperties: false });

const PLACE = {
  cwd: text('Only sessions of this project directory, its subdirectories and worktrees; "." is the current one'),
  after: text("Active since: a local date, month or time (2025-12-15, 2025-12, 2025-12-15T18:30), words (yesterday, monday, last week, april, 3 days ago) or a span back from now (30min, 12h, 7d, 2w, 1mo)"),
  before: text("Begun before: written like after"),
  on: text("Active on this day, or in this week, month or year: written like after"),
  source: text("Only sessions of this agent, by the source that results give"),
};
const TIMES = ["after", "before", "on"];
const WITHIN = {
  role: choice(["user", "assistant"], "Only messages of this role"),
  tool: text("Only tool calls, by what they do (read, write, edit, shell, search, web, agent, mcp) or by a tool's name, as any agent calls it; =bash is exactly this name"),
  path: text("Only where a tool call touched this file, or a file below this directory; config.ts finds src/config.ts"),
  status: choice(["success", "error"], "Only tool calls that ended so"),
};
const SCOPES = ["here", "hub", "both"];
const ELSEWHERE = {
  scope: choice(SCOPES, "Where to look: here (default) is this machine; hub is what the person's other machines and their team have shipped to a hub, if there is one; both is one answer of both"),
  person: text("Only sessions of this person, as results name them"),
  workstation: text("Only sessions of this machine, as results name it"),
  project: text("Only sessions of this project, on whichever machine: its git remote (github.com/acme/app), its directory there, or the end of one (app)"),
};
const SIMILAR = text("Only the sessions that are shown as one with this one, each by itself; the id of a hit that says there are some");
const AT = choice(SCOPES, "Where it is: here (default), or hub if the result that names it says so");
const OFFSET = whole("Leave out the first so many");
/** The most and the fewest of what is asked for. A number beyond is meant as the nearest one: an error would cost the model a turn. */
const BOUNDS = { search: [1, 20, 8], list: [1, 50, 20], read: [1, 50, 20] } as const;
const limit = (what: string, [least, most, usual]: readonly [number, number, number]) => whole(`Most ${what}, ${least} to ${most}; default ${usual}`);

export const SEARCH = object(
  {
    query: text('Words to look for, as somebody would have said them; any of them count, the rarer the more. "a phrase", -word and pre* are understood. A time at the end narrows it: last week, since monday, in april, 3 days ago. An empty one lists the newest'),
    ...PLACE,
    ...WITHIN,
    ...ELSEWHERE,
    similarTo: SIMILAR,
    sort: choice(["relevance", "recent"], "Best first (default) or newest first"),
    limit: limit("sessions", BOUNDS.search),
    offset: OFFSET,
  },
  ["query"],
);

export const LIST = object({ ...PLACE, path: WITHIN.path, ...ELSEWHERE, limit: limit("sessions", BOUNDS.list), offset: OFFSET }, []);

export const READ = object(
  {
    session: text("The session: its id, the beginning of it, or its name; ~1 behind it is the session that it was begun from"),
    around: whole("Show the messages around this one: the [N] of a hit"),
    offset: whole("Begin with this message; the default is 0. Below 0 it counts from the end: -20 is how the session ended"),
    limit: limit("messages", BOUNDS.read),
    textOffset: whole("Begin at this character of each message: to go on in a long one"),
    scope: AT,
  },
  ["session"],
);

export const QUERY = object(
  {
    session: text("The session: its id, the beginning of it, or its name; ~1 behind it is the session that it was begun from"),
    question: text("What is to be found out, with all that is needed to understand it: whoever answers knows nothing of this conversation"),
    upTo: whole("Ask as of this message, the [N] of a hit: only what leads to it is read. Left out, what leads to the newest"),
    scope: AT,
  },
  ["session", "question"],
);

export type Given = Record<string, string | number | undefined>;

/** How many sessions or messages are asked for. */
export function most(given: Given, what: keyof typeof BOUNDS): number {
  const [least, most, usual] = BOUNDS[what];
  const ofEnd = what === "read" && given.around === undefined ? Math.max(0, -Number(given.offset ?? 0)) : 0;
  return Math.min(most, Math.max(least, Number(given.limit ?? (ofEnd || usual))));
}

/** A number that counts from 0. */
export function counted(value: Given[string]): number {
  return Math.max(0, Number(value ?? 0));
}

/** The params of `search` and `list_sessions` for what the model gave. */
export function filters(given: Given, here: string): Record<string, unknown> {
  const { cwd, ...rest } = given;
  const known = Object.fromEntries(Object.entries(rest).filter(([name, value]) => name in { ...PLACE, ...WITHIN, ...ELSEWHERE, similarTo: SIMILAR } && value !== undefined && value !== ""));
  return {
    ...known,
    ...(cwd && { cwd: directory(String(cwd), here) }),
    ...(TIMES.some((name) => name in known) && { timeZone: zone() }),
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
