/** The list of `/sessions`: what was found, with passages; a look into each; and what is to be done with it. Fits whatever the terminal is. */
import type { Theme } from "@earendil-works/pi-coding-agent";
import { type Component, matchesKey, truncateToWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import { type Paint, row } from "./rows.ts";
import { clean, minute } from "./text.ts";
import type { Hit, Page } from "./wire.ts";

export type Action = "open" | "fork" | "prompt";
export interface Choice {
  hit: Hit;
  action: Action;
}

/** What the list gets of its surroundings. `of` is how many sessions there are, and `height` that of the terminal, which may change. */
export interface Surroundings {
  heading: string;
  of: string;
  theme: Theme;
  height: () => number;
  read: (hit: Hit) => Promise<Page>;
  redraw: () => void;
  done: (choice: Choice | undefined) => void;
}

const AROUND = 8; // lines that pi keeps for itself: its footer, and some of what stands above
const LINES_OF_HIT = 2;
const MARKS = ["→ ", "  "] as const;
const ACTIONS: Record<string, Action> = { enter: "open", f: "fork", p: "prompt" };
const KEYS = "enter opens · f forks · p into the prompt · → reads · esc";
const KEYS_READING = "↑↓ · enter opens · f forks · p into the prompt · ← back";

export class Picker implements Component {
  readonly #hits: Hit[];
  readonly #with: Surroundings;
  readonly #paint: Paint;
  #at = 0;
  #top = 0;
  #reading: { text: string[]; from: number } | undefined;
  #lines = 0; // of the text that is read, as drawn last

  constructor(hits: Hit[], surroundings: Surroundings) {
    const { theme } = surroundings;
    this.#hits = hits;
    this.#with = surroundings;
    this.#paint = { name: (text) => theme.bold(text), dim: (text) => theme.fg("dim", text), passage: (text) => theme.fg("muted", text), match: (text) => theme.bold(theme.fg("accent", text)) };
  }

  render(width: number): string[] {
    const { theme, heading, of } = this.#with;
    const place = `${this.#at + 1} of ${of}`;
    const head = `${theme.fg("accent", theme.bold(heading))}  ${theme.fg("dim", place)}`;
    const foot = theme.fg("dim", this.#reading ? KEYS_READING : KEYS);
    return [head, ...(this.#reading ? this.#text(width) : this.#rows(width)), foot].map((one) => truncateToWidth(one, width, "…"));
  }

  handleInput(data: string): void {
    const action = Object.entries(ACTIONS).find(([key]) => matchesKey(data, key as "enter"))?.[1];
    const hit = this.#hits[this.#at];
    if (action && hit) this.#with.done({ hit, action });
    else if (matchesKey(data, "escape") || matchesKey(data, "ctrl+c")) this.#back();
    else if (matchesKey(data, "left")) this.#reading = undefined;
    else if (matchesKey(data, "right") || matchesKey(data, "space") || matchesKey(data, "tab")) void this.#look();
    else this.#move(data);
    this.#with.redraw();
  }

  invalidate(): void {
    // nothing is kept that depends on the theme
  }

  #back(): void {
    if (this.#reading) this.#reading = undefined;
    else this.#with.done(undefined);
  }

  #move(data: string): void {
    const page = this.#reading ? this.#room() : Math.max(1, Math.floor(this.#room() / LINES_OF_HIT));
    const by = { up: -1, down: 1, pageUp: -page, pageDown: page, k: -1, j: 1 } as const;
    const step = Object.entries(by).find(([key]) => matchesKey(data, key as "up"))?.[1];
    if (step === undefined) return;
    if (this.#reading) this.#reading.from = within(this.#reading.from + step, this.#lines - this.#room());
    else this.#at = within(this.#at + step, this.#hits.length - 1);
  }

  /** How many lines there are for the list. */
  #room(): number {
    return Math.max(4, Math.min(30, this.#with.height() - AROUND));
  }

  #rows(width: number): string[] {
    const shown = Math.floor(this.#room() / LINES_OF_HIT);
    this.#top = Math.min(Math.max(this.#top, this.#at - shown + 1), this.#at);
    return this.#hits.slice(this.#top, this.#top + shown).flatMap((hit, index) => row(hit, MARKS[this.#top + index === this.#at ? 0 : 1], width, this.#paint));
  }

  #text(width: number): string[] {
    const { text, from } = this.#reading ?? { text: [], from: 0 };
    const lines = text.flatMap((one) => wrapTextWithAnsi(one, width));
    this.#lines = lines.length;
    const room = this.#room();
    const shown = lines.slice(from, from + room);
    return [...shown, ...Array<string>(Math.max(0, Math.min(room, lines.length) - shown.length)).fill("")];
  }

  /** The messages around the passage. */
  async #look(): Promise<void> {
    const hit = this.#hits[this.#at];
    if (!hit || this.#reading) return;
    const { theme, read, redraw } = this.#with;
    this.#reading = { text: [theme.fg("dim", "reading …")], from: 0 };
    const mine = this.#reading;
    mine.text = await read(hit).then((page) => told(page, hit, theme), (error: unknown) => [theme.fg("error", clean(error instanceof Error ? error.message : String(error)))]);
    redraw();
  }
}

function within(value: number, most: number): number {
  return Math.max(0, Math.min(value, most));
}

const MESSAGE_CHARACTERS = 2_000;

/** Messages as a person reads them, the one that matched first among its neighbours marked. */
function told(page: Page, hit: Hit, theme: Theme): string[] {
  const notes = [hit.summary, hit.description].filter(Boolean).flatMap((text) => [theme.fg("customMessageText", clean(text ?? "")), ""]);
  const messages = page.messages.flatMap((one) => {
    const who = one.kind === "tool_call" ? (one.toolName ?? "tool") : one.role;
    const head = `[${one.msgIdx}] ${clean(who)}  ${minute(one.timestamp)}`;
    const text = clean([...one.text.slice(0, 2 * MESSAGE_CHARACTERS)].slice(0, MESSAGE_CHARACTERS).join("")).trim();
    return [one.msgIdx === hit.match?.msgIdx ? theme.fg("accent", head) : theme.fg("dim", head), ...text.split("\n"), ""];
  });
  return [...notes, ...messages];
}
