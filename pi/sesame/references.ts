/** `@@name` in a prompt: which words of it are references, and which sessions the running one has been told of already. Pure. */
import { clean } from "./text.ts";

export const CUSTOM_TYPE = "sesame-reference";
const NAME = /[\p{L}\p{N}][^\s@`"'<>|]*/u;
const TOKEN = new RegExp(`(?<=^|[\\s([{])(@@@?)(${NAME.source})`, "gu");
const WHOLE = new RegExp(`^${NAME.source}$`, "u");
const CODE = /```[\s\S]*?(?:```|$)|`[^`\n]*`/g;
const CLOSING = ".,;:!?)]}";
const ANCESTOR = /.~\d{0,3}$/;
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

/** Whether this is what a reference can say: what was inserted must be found again. */
export function isReference(name: string): boolean {
  return WHOLE.test(name) && clean(name) === name && withoutClosing(name) === name;
}

/**
 * Whether this session is meant, of which the daemon says that it is the nearest: by its id or a part of it, by its whole name,
 * or by several words of it. One word of a name is as likely to be code: `@@error`.
 */
export function isMeant(reference: string, { sessionId, name }: { sessionId: string; name?: string | null }): boolean {
  const typed = words(reference);
  if (ANCESTOR.test(reference) || typed.length > 1) return true;
  return (reference.length >= PART_OF_ID && sessionId.startsWith(reference)) || sessionId === reference || typed.join() === words(name ?? "").join();
}

/** The words of a name, as a reference spells them. */
export function words(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
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
}

/** The sessions whose reference is in the context already: said since the last compaction. */
export function toldOf(branch: readonly Entry[]): Set<string> {
  const since = branch.slice(branch.findLastIndex((entry) => entry.type === "compaction") + 1);
  const told = since.filter((entry) => entry.type === "custom_message" && entry.customType === CUSTOM_TYPE);
  return new Set(told.flatMap((entry) => (entry.details as { ids?: string[] } | undefined)?.ids ?? []));
}
