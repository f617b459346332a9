/** The session that runs, as it is at this moment: after the next await pi may have gone on to another one. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { isRecord } from "../client.ts";
import { type Branch, context, type Entry, promptsSince } from "./conversation.ts";
import { metaPath, readMeta } from "./meta.ts";
import type { Subject } from "./remembering.ts";

/** What each attempt leaves in the session, as the extension session-index does: ours say that they are. */
export const ATTEMPT = "session-index:index";
export const OURS = "sesame";

type Kept = Entry & { customType?: string; data?: unknown };

/** Undefined, if pi keeps no file of it. */
export function subjectOf({ sessionManager }: ExtensionContext): Subject | undefined {
  const file = sessionManager.getSessionFile();
  if (file === undefined) return undefined;
  const nativeId = sessionManager.getSessionId();
  const ids = context(sessionManager as unknown as Branch);
  const newestPrompt = branchOf(sessionManager).findLast((entry) => isPrompt(entry) && ids.includes(entry.id))?.id;
  const parent = sessionManager.getHeader()?.parentSession;
  return { sessionId: `pi:${nativeId}`, nativeId, file, parent, cwd: sessionManager.getCwd(), leaf: sessionManager.getLeafId() ?? undefined, ids, ...(newestPrompt && { newestPrompt }) };
}

/** How many prompts there are since it was remembered last, and what is wrong with what was kept of it then. */
export function newPrompts({ sessionManager }: ExtensionContext, agentDirectory: string): { count: number; corrupt?: string } {
  const path = metaPath(agentDirectory, sessionManager.getSessionId());
  const meta = readMeta(path);
  const count = promptsSince(branchOf(sessionManager), typeof meta === "object" ? meta.lastIndexedLeafId : undefined);
  return typeof meta === "string" ? { count, corrupt: `${path} cannot be what it ought to be (${meta}): it counts as none, and is written anew with the next answer` } : { count };
}

/** Whether session-index has been at work here since we were. */
export function isTheirs({ sessionManager }: Pick<ExtensionContext, "sessionManager">): boolean {
  const last = (sessionManager.getEntries() as Kept[]).findLast(({ type, customType }) => type === "custom" && customType === ATTEMPT);
  return last !== undefined && !(isRecord(last.data) && last.data.by === OURS);
}

function branchOf(manager: ExtensionContext["sessionManager"]): Entry[] {
  return manager.getBranch() as Entry[];
}

function isPrompt({ type, message }: Entry): boolean {
  return type === "message" && message?.role === "user" && hasText(message.content);
}

function hasText(content: unknown): boolean {
  if (typeof content === "string") return content.trim() !== "";
  return Array.isArray(content) && content.some((part: { type?: unknown; text?: unknown }) => part.type === "text" && String(part.text).trim() !== "");
}
