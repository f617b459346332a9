/**
 * What a day may cost, and how many older sessions it may do, whichever of several pi asks: a file a day, to which lines are only ever
 * appended, so that nobody overwrites what another one has spent. What a call may cost is put down before it is made, and corrected
 * after it: one that is killed has cost what it may have.
 */
import { appendFileSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { isRecord } from "../client.ts";
import { day } from "../text.ts";

const BEGINNING = "session-index.spent-";
const KEPT_MS = 30 * 24 * 3_600_000;
const CENT = 100;
const FEW = 1e-9; // of a dollar: what adding may be wrong by

interface Line {
  usd?: number;
  session?: string; // an older one that somebody has begun
  by?: string;
  useless?: string; // one of which no answer was of use
}

export class Budget {
  readonly #directory: string;
  readonly #usd: number;

  constructor(agentDirectory: string, cents: number) {
    this.#directory = agentDirectory;
    this.#usd = cents / CENT;
  }

  /** Put down what a call may cost. Gives what is to be told when it is over: what it did cost. Throws if that is too much for today. */
  reserve(usd: number): (actual: number) => void {
    const file = this.#today();
    this.#add(file, { usd });
    const settle = (actual: number) => this.#add(file, { usd: actual - usd });
    if (total(this.#lines(file)) <= this.#usd + FEW && this.#usd > 0) return settle;
    settle(0);
    throw new SpentError(this.#usd * CENT);
  }

  /** Take an older session upon us: not if somebody else has today, if there were that many, or if it has come to nothing lately. */
  claim(session: string, most: number): boolean {
    const [file, by] = [this.#today(), randomUUID()];
    const begun = () => this.#lines(file).filter((line) => line.session !== undefined);
    const sessions = new Set(begun().map((line) => line.session));
    if (sessions.size >= most || sessions.has(session) || this.#isUseless(session)) return false;
    this.#add(file, { session, by });
    return begun().find((line) => line.session === session)?.by === by;
  }

  /** No model gave a usable answer: for a month it must not keep others from their turn. */
  giveUp(session: string): void {
    this.#add(this.#today(), { useless: session });
  }

  #isUseless(session: string): boolean {
    return this.#files().some((file) => this.#lines(file).some(({ useless }) => useless === session));
  }

  #today(): string {
    return join(this.#directory, nameOf(Date.now()));
  }

  #files(): string[] {
    return readdirSync(this.#directory).flatMap((name) => (name.startsWith(BEGINNING) ? [join(this.#directory, name)] : []));
  }

  #add(file: string, line: Line): void {
    if (this.#lines(file).length === 0) this.#clear();
    appendFileSync(file, `\n${JSON.stringify(line)}`, { mode: 0o600 }); // behind half a line it is one of its own
  }

  #clear(): void {
    const oldest = join(this.#directory, nameOf(Date.now() - KEPT_MS));
    for (const file of this.#files()) if (file < oldest) rmSync(file, { force: true });
  }

  #lines(file: string): Line[] {
    try {
      return readFileSync(file, "utf8").split("\n").flatMap(parsed);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
  }
}

/** The day's budget does not allow another call. */
export class SpentError extends Error {
  constructor(cents: number) {
    super(`today's budget of ${Number(cents.toFixed(4))} cents (budgetCents) does not allow another call`);
  }
}

function nameOf(time: number): string {
  return `${BEGINNING}${day(new Date(time).toISOString())}.jsonl`;
}

function parsed(text: string): Line[] {
  try {
    const line: unknown = JSON.parse(text);
    return isRecord(line) ? [line as Line] : [];
  } catch {
    return []; // half a line: a disk was full
  }
}

function total(lines: readonly Line[]): number {
  return lines.reduce((sum, { usd }) => sum + (typeof usd === "number" ? usd : 0), 0);
}
