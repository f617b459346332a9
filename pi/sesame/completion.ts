/** `@@` while typing: names of sessions, of this project, with `@@@` of everywhere; the latest ones when nothing is typed yet. */
import type { AutocompleteItem, AutocompleteProvider } from "@earendil-works/pi-tui";
import { count, short } from "./present.ts";
import { isReference, words } from "./references.ts";
import { cut, day, line, minute } from "./text.ts";
import type { Found, Listed, Session } from "./wire.ts";

const TYPED = /(?:^|[\s([{])(@@@?)([^\s@`]*)$/u;
const MOST = 12;
const LONGEST_NAME = 48;
const HEXADECIMAL = /^[0-9a-f-]+$/;
const KEEP_MS = 5_000; // names change slowly, keys come fast

/** A question that starts nothing: a key press is no reason to. */
export type Look = <T>(method: string, params: object, signal: AbortSignal) => Promise<T>;

interface Typed {
  prefix: string;
  everywhere: boolean;
  text: string;
}

/** What is being typed before the cursor, when that is a reference and no code. */
export function typed(before: string): Typed | undefined {
  const match = TYPED.exec(before);
  if (!match || (before.split("`").length - 1) % 2 === 1) return undefined;
  const [, sign = "", text = ""] = match;
  return { prefix: sign + text, everywhere: sign === "@@@", text };
}

export class Names {
  readonly #look: Look;
  readonly #own: string;
  readonly #cwd: string;
  readonly #kept = new Map<boolean, { at: number; sessions: Session[] }>();

  constructor(look: Look, own: string, cwd: string) {
    this.#look = look;
    this.#own = own;
    this.#cwd = cwd;
  }

  /** The sessions that may be meant: by name or id, then by what was said in them. */
  async suggest({ everywhere, text }: Typed, signal: AbortSignal): Promise<AutocompleteItem[]> {
    const known = await this.#sessions(everywhere, signal);
    const named = known.filter((session) => isCalled(session, text));
    const found = text === "" || named.length >= MOST ? [] : await this.#found(everywhere, text, signal);
    const ids = new Set(named.map((session) => session.sessionId));
    const meant = [...named, ...found.filter((session) => !ids.has(session.sessionId))].filter((session) => isReference(short(session)));
    return meant.slice(0, MOST).map((session) => item(session, everywhere, everywhere ? short(session) : called(session, known)));
  }

  async #sessions(everywhere: boolean, signal: AbortSignal): Promise<Session[]> {
    const kept = this.#kept.get(everywhere);
    if (kept && performance.now() - kept.at < KEEP_MS) return kept.sessions;
    const { sessions } = await this.#look<Listed>("list_sessions", { ...this.#filters(everywhere), subagents: "exclude", limit: 500 }, signal);
    this.#kept.set(everywhere, { at: performance.now(), sessions });
    return sessions;
  }

  async #found(everywhere: boolean, text: string, signal: AbortSignal): Promise<Session[]> {
    const found = await this.#look<Found>("search", { ...this.#filters(everywhere), query: `${words(text).join(" ")}*`, limit: MOST }, signal);
    return found.results;
  }

  #filters(everywhere: boolean): object {
    return { exclude: [this.#own], ...(everywhere ? {} : { cwd: this.#cwd }) };
  }
}

/** The provider around another one, which keeps everything that is no reference. */
export function provider(current: AutocompleteProvider, names: Names): AutocompleteProvider {
  const at = (lines: string[], row: number, column: number) => typed((lines[row] ?? "").slice(0, column));
  return {
    triggerCharacters: [...new Set([...(current.triggerCharacters ?? []), "@"])],
    async getSuggestions(lines, row, column, options) {
      const reference = at(lines, row, column);
      if (!reference) return current.getSuggestions(lines, row, column, options);
      const items = await names.suggest(reference, options.signal).catch(() => []); // whoever types on must not be disturbed
      return options.signal.aborted || items.length === 0 ? null : { prefix: reference.prefix, items };
    },
    applyCompletion(lines, row, column, chosen, prefix) {
      const reference = prefix.startsWith("@@") ? at(lines, row, column) : undefined; // more may have been typed since the list came
      if (!reference) return current.applyCompletion(lines, row, column, chosen, prefix);
      return completed(lines, row, column, chosen.value, reference.prefix);
    },
    shouldTriggerFileCompletion: (lines, row, column) => !at(lines, row, column) && (current.shouldTriggerFileCompletion?.(lines, row, column) ?? true),
  };
}

function completed(lines: string[], row: number, column: number, value: string, prefix: string) {
  const whole = lines[row] ?? "";
  const start = column - prefix.length;
  const behind = whole.slice(column);
  const space = behind.startsWith(" ") ? "" : " ";
  return { lines: lines.with(row, whole.slice(0, start) + value + space + behind), cursorLine: row, cursorCol: start + value.length + 1 };
}

/** A name as a reference spells it: its words joined. */
export function slug(name: string): string {
  return words(name).join("-");
}

function isCalled({ sessionId, name }: Session, text: string): boolean {
  const inside = slug(name ?? "");
  return sessionId.startsWith(text) || words(text).every((word) => inside.includes(word));
}

/** Where several projects are listed, a row says which it is of; otherwise when it was, to the minute. */
function item(session: Session, everywhere: boolean, reference: string): AutocompleteItem {
  const label = cut(line(session.name ?? "") || session.sessionId, 80);
  const facts = everywhere ? [day(session.modified), session.source, line(session.cwd ?? "")] : [minute(session.modified), session.source, count(session.messageCount, "message")];
  return { value: `@@${reference}`, label, description: facts.filter(Boolean).join("  ") };
}

/** A short name that no other session of the project has, else the id. A name that an id may begin with would mean that one. */
function called(session: Session, known: Session[]): string {
  const spelt = slug(session.name ?? "");
  const fits = spelt !== "" && spelt.length <= LONGEST_NAME && !HEXADECIMAL.test(spelt) && !known.some((other) => other.sessionId.startsWith(spelt));
  return fits && known.filter((other) => slug(other.name ?? "") === spelt).length === 1 ? spelt : short(session);
}
