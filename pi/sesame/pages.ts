/** The messages of a session, or of one of its branches, page by page from either end. */
import type { Ask } from "./ask.ts";
import type { Message, Page } from "./wire.ts";

const PAGE = 100;

/** Which session, and whether it is in the hub; with `branch` only what leads to this line of it, or (`leaf`) to the newest. */
export interface Place {
  sessionId: string;
  scope?: "hub";
  branch?: string;
}

/** A message, and where among those that are read it stands. */
export type Placed = Message & { at: number };

export async function* forward(ask: Ask, place: Place, signal?: AbortSignal): AsyncGenerator<Message> {
  for (let offset: number | null = 0; offset !== null; ) {
    const page: Page = await ask<Page>("list_messages", { ...place, offset, limit: PAGE }, signal);
    yield* page.messages;
    offset = page.nextOffset;
  }
}

export async function* backward(ask: Ask, place: Place, signal?: AbortSignal): AsyncGenerator<Placed> {
  const { total } = await ask<Page>("list_messages", { ...place, limit: 0 }, signal);
  for (let end = total; end > 0; end -= PAGE) yield* (await range(ask, place, Math.max(0, end - PAGE), end, signal)).reverse();
}

/** Messages from one place to another; an answer may have fewer than were asked for. */
async function range(ask: Ask, place: Place, begin: number, end: number, signal?: AbortSignal): Promise<Placed[]> {
  const messages: Placed[] = [];
  for (let at = begin; at < end; at = begin + messages.length) {
    const page = await ask<Page>("list_messages", { ...place, offset: at, limit: end - at }, signal);
    if (page.messages.length === 0) break; // the session has changed meanwhile
    messages.push(...page.messages.map((message, index) => ({ ...message, at: at + index })));
  }
  return messages;
}
