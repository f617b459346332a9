/** A page of a session as text for the model: bounded, what others wrote marked as quoted, and how to turn it. Pure. */
import { about, annotations, type Called, name, QUOTED, reading, type Shown, TOOL_CHARACTERS } from "./present.ts";
import { characters, clean, fitting, minute, quoted, quotedLength, word } from "./text.ts";
import type { Message, Meta, Page } from "./wire.ts";

const FRAME = 12; // around each part of a page: line ends, and the digits of an offset

/** Which part of a session is shown, in how many characters, and what the tool is called that reads on. */
interface Part {
  reads: string;
  budget: number;
  around?: number | undefined;
  textOffset?: number;
}

/** A page of a session, in at most `budget` characters; `around` gets the most room. */
export function page(whole: Page, meta: Meta | undefined, part: Part): Shown {
  const called = meta ?? whole;
  const read = narrowed(whole, called, part);
  const heading = [...(meta ? [`Session ${name(meta)}`, about(meta), ...annotations(meta)] : [`Session ${word(read.sessionId)}`]), ...places(read, part.around)];
  const turned = turns(read, called, part.reads);
  const frame = [...heading, ...read.messages.map((message) => entry(message, 0, called, part)), "", ...turned];
  const left = part.budget - frame.reduce((sum, one) => sum + one.length + FRAME, 0);
  const room = shares(read.messages.map(({ text }) => quotedLength(text)), left, read.messages.findIndex(({ msgIdx }) => msgIdx === part.around));
  const shown = read.messages.map((message, index) => `\n${entry(message, room[index] ?? 0, called, part)}`);
  return { text: [...heading, ...shown, "", ...turned].join("\n").trimEnd(), shown: shown.length };
}

/** So many of the messages that what stands around their texts takes half of the room at most; with `around` those next to it. */
function narrowed(read: Page, called: Called, part: Part): Page {
  const { messages } = read;
  const middle = Math.max(0, messages.findIndex(({ msgIdx }) => msgIdx === part.around));
  const nearest = [...messages.keys()].sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
  let left = part.budget / 2;
  const beyond = nearest.findIndex((index, count) => {
    left -= entry(messages[index]!, 0, called, part).length + FRAME;
    return left < 0 && count > 0;
  });
  if (beyond < 0) return read;
  const kept = nearest.slice(0, beyond);
  const [from, to] = [Math.min(...kept), Math.max(...kept)];
  return { ...read, messages: messages.slice(from, to + 1), nextOffset: messages[to + 1]?.msgIdx ?? read.nextOffset };
}

/** Which messages these are, and which there are. */
function places(read: Page, around: number | undefined): string[] {
  const [first, last] = [read.messages[0], read.messages.at(-1)];
  const all = read.total > 0 ? `[0] to [${read.total - 1}]` : "none";
  const missed = around !== undefined && around >= read.total ? [`There is no [${around}].`] : [];
  return [...missed, first && last ? `[${first.msgIdx}] to [${last.msgIdx}] of its messages and tool calls, which are ${all}. ${QUOTED}` : `No messages there; its messages and tool calls are ${all}.`];
}

/** A message in at most so many characters, and where its text goes on: that counts the characters of the text, not those that are shown. */
function entry(message: Message, room: number, session: Called, { reads, textOffset = 0 }: Part): string {
  const who = message.kind === "tool_call" ? `tool ${word(message.toolName ?? "call", TOOL_CHARACTERS)}${message.isError ? ", failed" : ""}` : word(message.role);
  const isWhole = quotedLength(message.text) <= room;
  const count = isWhole ? characters(message.text) : fitting(message.text, room - 1);
  const kept = isWhole ? message.text : `${[...message.text].slice(0, count).join("")}…`;
  const from = textOffset > 0 ? `, from character ${textOffset}` : "";
  const rest = isWhole && !message.truncated ? [] : [`[cut; the rest: ${reading(reads, session, { offset: message.msgIdx, limit: 1, textOffset: textOffset + count })}]`];
  return [`[${message.msgIdx}] ${who}, ${minute(message.timestamp)}${message.undone ? ", taken back by the person" : ""}${from}`, quoted(clean(kept).trimEnd()), ...rest].join("\n");
}

function turns(read: Page, called: Called, reads: string): string[] {
  const [first, limit] = [read.messages[0]?.msgIdx ?? 0, read.messages.length];
  const ask = (offset: number, count: number) => reading(reads, called, { offset, limit: count });
  return [
    ...(first > 0 && limit > 0 ? [`Before: ${ask(Math.max(0, first - limit), Math.min(limit, first))}`] : []),
    ...(read.nextOffset === null ? [] : [`After: ${ask(read.nextOffset, limit)}`]),
  ];
}

/** How much of each text fits: short ones whole, the others alike; the favoured one up to half of everything. */
export function shares(sizes: number[], budget: number, favoured = -1): number[] {
  const room = sizes.map(() => 0);
  let left = Math.max(0, budget);
  if (favoured >= 0) left -= room[favoured] = Math.min(sizes[favoured] ?? 0, Math.floor(left / 2));
  const order = [...sizes.keys()].filter((index) => index !== favoured).sort((a, b) => (sizes[a] ?? 0) - (sizes[b] ?? 0));
  order.forEach((index, done) => {
    room[index] = Math.min(sizes[index] ?? 0, Math.floor(left / (order.length - done)));
    left -= room[index];
  });
  return room;
}

