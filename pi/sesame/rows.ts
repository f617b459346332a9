/** Sessions as a person chooses among them: each in a line or two that fit the terminal, with the passage and what matched in it. */
import { truncateToWidth, visibleWidth } from "@earendil-works/pi-tui";
import { clean, cut, line, minute } from "./text.ts";
import type { Candidate } from "./trouble.ts";
import type { Hit } from "./wire.ts";

/** How a row is coloured; the theme's own functions, or none in a list of plain texts. */
export interface Paint {
  name: (text: string) => string;
  dim: (text: string) => string;
  passage: (text: string) => string;
  match: (text: string) => string;
}

const NAME = 60;

/** A session that a reference may mean. */
export function choice(session: Candidate, columns = columnsOfTerminal()): string {
  return plain([cut(line(session.name ?? "") || line(session.sessionId), NAME), minute(session.modified), place(session.cwd)].filter(Boolean).join("  "), columns);
}

/** A hit in one line, for dialogs that have no others. */
export function option(hit: Hit, index: number, columns = columnsOfTerminal()): string {
  const passage = pieces(hit).map(([text]) => text).join("").trim();
  return plain([String(index + 1).padStart(2), minute(hit.modified), cut(title(hit), NAME), about(hit), cut(passage, NAME)].filter(Boolean).join("  "), columns);
}

/** A hit in two lines of at most this width: what it is, and the passage around the first match. */
export function row(hit: Hit, mark: string, width: number, paint: Paint): [string, string] {
  const facts = truncateToWidth([minute(hit.modified), about(hit)].filter(Boolean).join("  "), Math.floor(width * (width < 70 ? 0.5 : 0.6)), "…");
  const room = Math.max(8, width - visibleWidth(facts) - mark.length - 2);
  const name = truncateToWidth(title(hit), room, "…");
  const gap = " ".repeat(Math.max(2, width - mark.length - visibleWidth(name) - visibleWidth(facts)));
  return [fit(`${mark}${paint.name(name)}${gap}${paint.dim(facts)}`, width), fit(`${" ".repeat(mark.length)}${passage(hit, width - mark.length, paint)}`, width)];
}

/** Who said it, and the text around the first match. */
function passage(hit: Hit, width: number, paint: Paint): string {
  const who = hit.match?.kind === "heading" ? `${hit.match.field ?? "name"}: ` : hit.match?.toolName ? `${line(hit.match.toolName)}: ` : hit.match?.role ? `${hit.match.role}: ` : "";
  const parts = pieces(hit);
  const first = parts.findIndex(([, isMatch]) => isMatch);
  const before = first > 0 ? (parts[0]?.[0] ?? "") : "";
  const most = Math.max(8, Math.floor((width - who.length) / 3));
  if (visibleWidth(before) > most && first === 1) parts[0] = [`…${[...before].slice(-most).join("")}`, false];
  const text = parts.map(([one, isMatch]) => (isMatch ? paint.match(one) : paint.passage(one))).join("");
  return fit(`${paint.dim(who)}${text}`, width);
}

/** The passage on one line, cut where matches begin and end. */
function pieces({ matchedSnippet, highlights = [] }: Hit): [text: string, isMatch: boolean][] {
  const characters = [...matchedSnippet];
  const found: [string, boolean][] = [];
  let from = 0;
  for (const [begin, end] of highlights) {
    found.push([flat(characters.slice(from, begin)), false], [flat(characters.slice(Math.max(from, begin), end)), true]);
    from = Math.max(from, end);
  }
  return [...found, [flat(characters.slice(from)), false]];
}

function flat(characters: string[]): string {
  return clean(characters.join("")).replace(/\s+/g, " ");
}

function title(hit: Hit): string {
  return line(hit.name ?? "") || "(no name)";
}

function about({ source, cwd, gone, person, workstation }: Hit): string {
  return [line(source), place(cwd), person ? `of ${cut(line(person), 20)}@${cut(line(workstation ?? "?"), 8)}` : ""].filter(Boolean).join(" ") + (gone ? " (gone)" : "");
}

/** The end of the directory, by which a person knows it. */
function place(cwd: string | null | undefined): string {
  return cut(line(cwd ?? "").split("/").slice(-2).join("/"), 40);
}

function fit(text: string, columns: number): string {
  return truncateToWidth(text, columns, "…");
}

/** The same without the marks that end colours: a dialog's text has none, and may go to another program. */
function plain(text: string, columns: number): string {
  return clean(fit(text, columns));
}

/** What a dialog has for one option: it draws a mark before it. */
function columnsOfTerminal(): number {
  return Math.max(40, process.stdout.columns ?? 120) - 6;
}
