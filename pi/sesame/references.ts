/** `@@name` in a prompt: which words of it are references, and which sessions the running one has been told of already. Pure. */
import { clean, json } from "./text.ts";

export const CUSTOM_TYPE = "sesame-reference";
const NAME = /[\p{L}\p{N}][^\s@`"'<>|]*/u;
const TOKEN = new RegExp(`(?<=^|[\\s([{])(@@@?)(${NAME.source})`, "gu");
const WHOLE = new RegExp(`^${NAME.source}$`, "u");
const CODE = /```[\s\S]*?(?:```|$)|`[^`\n]*`/g;
const CLOSING = ".,;:!?)]}";
const ANCESTOR = /^(.+)~(\d{0,3})$/u;
const QUESTION = new RegExp(`^\\s*@@@?(${NAME.source})\\s+(\\S[\\s\\S]*)$`, "u");
const PART_OF_ID = 6;
const MOST = 8;

/** A session that a prompt names: of this project if several are called so, or (`@@@`) whichever it is. */
export interface Reference {
  name: string;
  everywhere: boolean;
}

/** What the prompt refers to, each once, in its order. Code is none of it, nor is what stands within a word. */
export function references(prompt: string): Reference[] {
  if (!prompt.includes("@@")) return [];
  const prose = prompt.replace(CODE, (code) => " ".repeat(code.length));
  const found = new Map<string, Reference>();
  for (const [, sign = "", token = ""] of prose.matchAll(TOKEN)) {
    const name = withoutClosing(token);
    if (!found.has(sign + name)) found.set(sign + name, { name, everywhere: sign === "@@@" });
  }
  return [...found.values()].slice(0, MOST);
}

/** The question of a prompt that is one to a session: `@@name: why?`. */
export function questionIn(prompt: string): { name: string; question: string } | undefined {
  const [, token = "", question = ""] = QUESTION.exec(prompt) ?? [];
  return token.endsWith(":") ? { name: withoutClosing(token), question: question.trim() } : undefined;
}

/** Whether this is what a reference can say: what was inserted must be found again. */
export function isReference(name: string): boolean {
  return WHOLE.test(name) && clean(name) === name && withoutClosing(name) === name;
}

/** Whether this is just that session: its id, the beginning of it, or its whole name. Anything else would be a guess: `@@error` is code, too. */
export function isExact(reference: string, { sessionId, name }: { sessionId: string; name?: string | null }): boolean {
  const typed = words(reference);
  const isOfId = reference === sessionId || reference.endsWith(`:${sessionId}`) || (reference.length >= PART_OF_ID && sessionId.startsWith(reference));
  return isOfId || (typed.length > 0 && typed.join(" ") === words(name ?? "").join(" "));
}

/** The reference without the `~N` behind it, and how many ancestors are told as well; undefined if there is none. */
export function withAncestors(reference: string): { name: string; ancestors: number } | undefined {
  const [, name, number = ""] = ANCESTOR.exec(reference) ?? [];
  return name === undefined ? undefined : { name, ancestors: number === "" ? 1 : Number(number) };
}

/** The words of a name, as a reference spells them. */
export function words(text: string): string[] {
  return text.normalize("NFKC").toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** A word without the punctuation that ends its sentence. */
function withoutClosing(word: string): string {
  let end = word.length;
  while (CLOSING.includes(word.charAt(end - 1)) && end > 0) end -= 1;
  return word.slice(0, end);
}

interface Entry {
  type: string;
  customType?: string;
  details?: unknown;
  message?: { role?: string; content?: unknown };
}

const BLOCK = new RegExp(`\\n<${CUSTOM_TYPE} ids=(\\[.*\\])>\\n`, "u");

/** A prompt with what its references mean behind it. Sources know the marks: what is between them is nobody's prompt. */
export function withBlock(prompt: string, told: string, ids: string[]): string {
  return `${prompt}\n\n<${CUSTOM_TYPE} ids=${json(ids)}>\n${told}\n</${CUSTOM_TYPE}>`;
}

/** The sessions whose reference is in the context already: said since the last compaction. */
export function toldOf(branch: readonly Entry[]): Set<string> {
  return new Set(branch.slice(branch.findLastIndex((entry) => entry.type === "compaction") + 1).flatMap(idsIn));
}

function idsIn({ type, customType, details, message }: Entry): string[] {
  if (type === "custom_message" && customType === CUSTOM_TYPE) return (details as { ids?: string[] } | undefined)?.ids ?? [];
  return type === "message" && message?.role === "user" ? textsOf(message.content).flatMap(idsOfBlock) : [];
}

function textsOf(content: unknown): string[] {
  if (typeof content === "string") return [content];
  return Array.isArray(content) ? content.map((part: { text?: unknown }) => String(part.text ?? "")) : [];
}

function idsOfBlock(text: string): string[] {
  try {
    return JSON.parse(BLOCK.exec(text)?.[1] ?? "[]") as string[];
  } catch {
    return []; // somebody's own text that looks like it
  }
}
