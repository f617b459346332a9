/** `@@name` in a prompt: which words of it are references, and which sessions the running one has been told of already. Pure. */

export const CUSTOM_TYPE = "sesame-reference";
const TOKEN = /(?<=^|[\s([{])@@@?([\p{L}\p{N}][^\s@`"'<>|]*)/gu;
const CODE = /```[\s\S]*?(?:```|$)|`[^`\n]*`/g;
const CLOSING = /[.,;:!?)\]}]+$/;
const MOST = 8;

/** What the prompt refers to, each once, in its order. Code is none of it, nor is what stands within a word. */
export function references(prompt: string): string[] {
  if (!prompt.includes("@@")) return [];
  const prose = prompt.replace(CODE, (code) => " ".repeat(code.length));
  const found = [...prose.matchAll(TOKEN)].map((match) => (match[1] ?? "").replace(CLOSING, ""));
  return [...new Set(found.filter(Boolean))].slice(0, MOST);
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
