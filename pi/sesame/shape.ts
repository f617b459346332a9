/** Whether an answer has what we read of it. A daemon of another version is to be named, and not to end in a TypeError. Pure. */
type Kind = "string" | "number" | "array" | "object";

const SESSION: Record<string, Kind> = { sessionId: "string", source: "string", created: "string", modified: "string", messageCount: "number" };
const HIT: Record<string, Kind> = { ...SESSION, score: "number", matchedSnippet: "string", matchedWords: "array", missingWords: "array" };
const MESSAGE: Record<string, Kind> = { msgIdx: "number", role: "string", kind: "string", text: "string" };

/** What of each result is always there, and in which of its fields are items, which have these. */
const RESULTS: Record<string, { fields: Record<string, Kind>; items?: readonly [field: string, Record<string, Kind>] }> = {
  search: { fields: { results: "array", words: "array", corrected: "object", dropped: "array", warnings: "array", pending: "object" }, items: ["results", HIT] },
  list_sessions: { fields: { total: "number", sessions: "array" }, items: ["sessions", SESSION] },
  list_messages: { fields: { sessionId: "string", total: "number", messages: "array" }, items: ["messages", MESSAGE] },
  get_session_meta: { fields: SESSION },
  resolve_session: { fields: SESSION },
};

/** What is wrong with the result of this method; nothing for methods whose result may be anything. */
export function flaw(method: string, result: unknown): string | undefined {
  const expected = RESULTS[method];
  if (!expected) return undefined;
  const wrong = missing(result, expected.fields);
  if (wrong || !expected.items) return wrong && `no ${wrong}`;
  const [field, fields] = expected.items;
  const found = (result as Record<string, unknown[]>)[field]?.map((item) => missing(item, fields)).find(Boolean);
  return found && `${field} without ${found}`;
}

function missing(value: unknown, fields: Record<string, Kind>): string | undefined {
  if (kindOf(value) !== "object") return "object";
  return Object.keys(fields).find((name) => kindOf((value as Record<string, unknown>)[name]) !== fields[name]);
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
