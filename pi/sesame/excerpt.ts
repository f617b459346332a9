/**
 * What of a session a question is asked of: the newest of what was said on one branch, as far as there is room; before that its first
 * prompt, and the last summary, which stands for what is left out. Calls are told shortly.
 */
import type { Ask } from "./ask.ts";
import { backward, forward, type Place, type Placed } from "./pages.ts";
import { clean, cut, quoted } from "./text.ts";
import type { Message } from "./wire.ts";

const OLDER = 2_000; // messages that are looked through for a summary
const [SAID, DONE] = [6_000, 300]; // characters of a message, of a call with its result
const LEFT_OUT = "[…]";

export interface Excerpt {
  text: string;
  numbers: number[]; // of the messages in it, in their order
  isCut: boolean;
  total: number; // messages and calls on the branch
}

/** As much of a branch as fits into so many characters. */
export async function excerpt(ask: Ask, place: Place, room: number, signal?: AbortSignal): Promise<Excerpt> {
  const kept: Placed[] = [];
  let [left, older, total] = [room, 0, 0];
  for await (const one of backward(ask, place, signal)) {
    total ||= one.at + 1;
    if (!isTold(one)) continue;
    const length = told(one).length + 2;
    if (older === 0 && (length <= left || kept.length === 0)) {
      kept.push(one);
      left -= length;
      continue;
    }
    older += 1; // from here on only a summary is wanted
    if (one.role === "summary") kept.push(one);
    if (one.role === "summary" || older > OLDER) break;
  }
  const ordered = [...(await firstPrompt(ask, place, kept.at(-1)?.at ?? 0, signal)), ...kept.reverse()];
  const gaps = ordered.map(({ at }, index) => at > (ordered[index - 1]?.at ?? -1) + 1);
  const text = ordered.map((one, index) => (gaps[index] ? `${LEFT_OUT}\n\n${told(one)}` : told(one))).join("\n\n");
  return { text, numbers: ordered.map(({ msgIdx }) => msgIdx), isCut: gaps.includes(true), total };
}

/** The first prompt, if it comes before that place. */
async function firstPrompt(ask: Ask, place: Place, before: number, signal?: AbortSignal): Promise<Placed[]> {
  let at = 0;
  if (before > 0)
    for await (const message of forward(ask, place, signal)) {
      if (at >= before) break;
      if (message.role === "user" && message.kind === "message" && isTold(message)) return [{ ...message, at }];
      at += 1;
    }
  return [];
}

function isTold({ text, undone }: Message): boolean {
  return !undone && text.trim() !== "";
}

function told({ msgIdx, kind, role, toolName, isError, text }: Message): string {
  const isCall = kind === "tool_call";
  const who = isCall ? `tool ${cut(toolName ?? "call", 80)}${isError ? ", failed" : ""}` : role;
  return `[${msgIdx}] ${who}:\n${quoted(shortened(clean(text).trim(), isCall ? DONE : SAID))}`;
}

/** A text without its middle, if it is too long: an answer often ends with what matters. */
function shortened(text: string, characters: number): string {
  const units = text.length <= characters ? [] : [...text];
  const end = Math.floor(characters / 3);
  return units.length <= characters ? text : `${units.slice(0, characters - end).join("")} ${LEFT_OUT} ${units.slice(-end).join("")}`;
}
