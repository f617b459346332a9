/** What a model answered, as what is kept of a session, or what is wrong with it: as sesamectl judges it, which a test compares. Pure. */
import { isRecord } from "../client.ts";
import { characters, clean, cut, line, whole } from "../text.ts";

/** What a model writes of a session. */
export interface Annotations {
  name: string;
  summary: string;
  description?: string;
  tags: string[];
  recallWords: string[];
}

const [MAX_NAME, MAX_TEXT, MAX_WORDS, MAX_WORD] = [200, 8_000, 100, 200];
const MAX_BRACES = 20; // that are tried as the beginning of an object

/** The answer is not what was asked for. */
export class AnswerError extends Error {
  readonly errors: string[];

  constructor(errors: string[]) {
    super(errors.join("; "));
    this.errors = errors;
  }
}

/** The annotations. Throws AnswerError. */
export function parseAnswer(output: string): Annotations {
  const answer = found(output);
  const errors = [
    wrongText(answer, "name", MAX_NAME),
    wrongText(answer, "summary", MAX_TEXT),
    answer.description === undefined || answer.description === null ? undefined : wrongText(answer, "description", MAX_TEXT, true),
    wrongList(answer, "tags"),
    wrongList(answer, "recallWords"),
  ].filter((error) => error !== undefined);
  if (errors.length > 0) throw new AnswerError(errors);
  const { name, summary, description, tags, recallWords } = answer as unknown as Annotations;
  const trimmed = (words: string[]) => words.filter(isSeen).map((word) => word.trim());
  return { name: name.trim(), summary: summary.trim(), ...(description ? { description: description.trim() } : {}), tags: trimmed(tags), recallWords: trimmed(recallWords) };
}

/** The outermost JSON object: models like to say something before it, and to put a fence around it. */
function found(output: string): Record<string, unknown> {
  let why = "there is no JSON object in it";
  const first = output.indexOf("{");
  for (let begin = first, tried = 0; begin >= 0 && tried < MAX_BRACES; begin = output.indexOf("{", begin + 1), tried += 1)
    try {
      const value: unknown = JSON.parse(output.slice(begin, endOf(output, begin)), mended);
      if (isRecord(value)) return value;
    } catch (error) {
      if (begin === first) why = `the JSON object cannot be read: ${cut(line((error as Error).message), 200)}`;
    }
  throw new AnswerError([why]);
}

/** Models leave halves of characters where they cut, and the daemon takes none. */
function mended(_name: string, value: unknown): unknown {
  return typeof value === "string" ? whole(value) : value;
}

/** Where the object ends that begins here. */
function endOf(text: string, begin: number): number {
  let depth = 0;
  for (const { 0: token, index } of text.slice(begin).matchAll(/"(?:[^"\\]|\\.)*"?|[{}]/gs)) {
    if (token === "{") depth += 1;
    if (token === "}") depth -= 1;
    if (depth === 0) return begin + index + 1;
  }
  return text.length;
}

function wrongText(answer: Record<string, unknown>, name: string, limit: number, mayBeEmpty = false): string | undefined {
  const value = answer[name];
  if (typeof value !== "string") return `"${name}" must be a text`;
  const length = characters(value);
  if (length > limit) return `"${name}" has ${length} characters, and at most ${limit} are allowed`;
  return mayBeEmpty || isSeen(value) ? undefined : `"${name}" must not be empty`;
}

function wrongList(answer: Record<string, unknown>, name: string): string | undefined {
  const value = answer[name];
  if (!Array.isArray(value) || !value.every((word) => typeof word === "string")) return `"${name}" must be a list of texts`;
  if (value.length < 1 || value.length > MAX_WORDS) return `"${name}" has ${value.length} entries; 1 to ${MAX_WORDS} are allowed`;
  if (!value.some(isSeen)) return `"${name}" must not be empty`;
  return value.some((word: string) => characters(word) > MAX_WORD) ? `an entry of "${name}" has more than ${MAX_WORD} characters` : undefined;
}

function isSeen(text: string): boolean {
  return clean(text).trim() !== "";
}
