/**
 * What a model is shown of a session: what was said, as the daemon masks it, of that what is in the context; its beginning and the
 * newest of it, up to 50 KiB. pi says what is in the context, the daemon what stands there.
 */
import type { Ask } from "../ask.ts";
import { backward, forward } from "../pages.ts";
import type { Message } from "../wire.ts";

export const MAX_BYTES = 50 << 10;
export const FIRST_BYTES = 8 << 10; // of what it begins with, when there is more than fits
const CUT = "[...]";
const SPEAKERS: Record<string, string> = { user: "User", assistant: "Assistant", summary: "Summary of what was before" };

export interface Conversation {
  text: string;
  isCut: boolean;
  upTo: number; // the number of the last message in it
  lastId: string | null; // the agent's own id of that
  prompts: number[]; // the numbers of the newest prompts in it
}

/** An entry of pi's, as far as it counts here. */
export interface Entry {
  type: string;
  id: string;
  firstKeptEntryId?: string | null;
  targetId?: string;
  message?: { role?: string; content?: unknown };
}

/** What pi's session manager says of a branch; older ones do not apply compactions. */
export interface Branch {
  getBranch(): Entry[];
  buildContextEntries?(): Entry[];
}

/** The ids of what is said in the context, in its order: a compaction stands for what was before it, and what was edited out is not in it. */
export function context(branch: Branch): string[] {
  const entries = branch.buildContextEntries?.() ?? compacted(branch.getBranch());
  const edited = new Set(entries.map(({ type, targetId }) => (type === "context_edit" ? targetId : undefined)));
  return entries.filter((entry, index) => isSaid(entry, index) && !edited.has(entry.id)).map(({ id }) => id);
}

function isSaid({ type, message }: Entry, index: number): boolean {
  if (type === "compaction") return index === 0; // an older one is in the newest
  return type === "branch_summary" || (type === "message" && (message?.role === "user" || message?.role === "assistant"));
}

function compacted(branch: Entry[]): Entry[] {
  const at = branch.findLastIndex(({ type }) => type === "compaction");
  const compaction = branch[at];
  if (!compaction) return branch;
  const kept = branch.findIndex(({ id }) => id === compaction.firstKeptEntryId);
  return [compaction, ...(kept < 0 ? [] : branch.slice(kept, at)), ...branch.slice(at + 1)];
}

/** How many prompts there are on a branch behind an entry; all, if it is not there. */
export function promptsSince(branch: readonly Entry[], leaf: string | undefined): number {
  const behind = branch.slice(branch.findIndex(({ id }) => id === leaf) + 1);
  return behind.filter(({ type, message }) => type === "message" && message?.role === "user").length;
}

interface Part {
  message: Message;
  text: string;
}

/** What was said in a session: in these entries, or on the branch on which it would go on. */
export async function readConversation(ask: Ask, sessionId: string, ids: readonly string[] | undefined, signal?: AbortSignal): Promise<Conversation> {
  const places = ids && new Map(ids.map((id, index) => [id, index]));
  const place = ({ entryId, msgIdx }: Message) => (places ? (places.get(entryId ?? "") ?? -1) : msgIdx);
  const isFirst = (message: Message) => (places ? place(message) === 0 : message.role === "user");
  const parts: Part[] = [];
  let left = MAX_BYTES;
  const where = { sessionId, ...(ids ? {} : { branch: "leaf" }) };
  const behind = backward(ask, where, signal);
  for await (const part of said(behind, place)) {
    parts.push(part);
    left -= Buffer.byteLength(part.text) + 2;
    if (left < 0) break;
  }
  const newest = parts[0]?.message;
  if (!newest) return { text: "", isCut: false, upTo: 0, lastId: null, prompts: [] };
  const head = left < 0 ? await first(said(forward(ask, where, signal), place), isFirst) : undefined;
  const prompts = parts.filter(({ message }) => message.role === "user").map(({ message }) => message.msgIdx);
  const others = parts.filter(({ message }) => message.msgIdx !== head?.message.msgIdx);
  const ordered = others.sort(({ message: one }, { message: other }) => place(one) - place(other) || one.msgIdx - other.msgIdx).map(({ text }) => text);
  return { ...fitted(head ? [head.text, ...ordered] : ordered), upTo: newest.msgIdx, lastId: newest.entryId ?? null, prompts };
}

async function* said(messages: AsyncIterable<Message>, place: (message: Message) => number): AsyncGenerator<Part> {
  for await (const message of messages) {
    const speaker = message.kind === "message" && !message.undone && place(message) >= 0 ? SPEAKERS[message.role] : undefined;
    const text = message.text.trim();
    if (speaker && text) yield { message, text: `${speaker}: ${text}` };
  }
}

async function first(parts: AsyncIterable<Part>, isFirst: (message: Message) => boolean): Promise<Part | undefined> {
  for await (const part of parts) if (isFirst(part.message)) return part;
  return undefined;
}

/** All of it, or its beginning and as much of the end as there is room for. */
export function fitted(parts: readonly string[]): { text: string; isCut: boolean } {
  const whole = parts.join("\n\n");
  if (Buffer.byteLength(whole) <= MAX_BYTES) return { text: whole, isCut: false };
  const [begin = "", ...others] = parts;
  const rest = others.join("\n\n");
  const head = shortened(begin, rest ? FIRST_BYTES : MAX_BYTES);
  return { text: rest ? `${head}\n\n${CUT}\n${lastBytes(rest, MAX_BYTES - Buffer.byteLength(head) - CUT.length - 3)}` : head, isCut: true };
}

function shortened(text: string, size: number): string {
  const bytes = Buffer.from(text);
  return bytes.length <= size ? text : `${bytes.subarray(0, size - CUT.length - 1).toString("utf8").replace(/\ufffd+$/, "")} ${CUT}`;
}

function lastBytes(text: string, size: number): string {
  const bytes = Buffer.from(text);
  return bytes.subarray(Math.max(0, bytes.length - size)).toString("utf8").replace(/^\ufffd+/, "");
}
