/** How calls, results and references look to the person: folded to what counts, coloured. The only importer of pi's components. */
import type { AgentToolResult, MessageRenderer, Theme } from "@earendil-works/pi-coding-agent";
import { type Component, Text } from "@earendil-works/pi-tui";
import type { Given } from "./schema.ts";
import { cut, line } from "./text.ts";
import type { Details } from "./tools.ts";

const MAIN = ["query", "session"];
const NAMES_SHOWN = 3;
const OF_SESSION = "Session ";

/** A call: the tool, what it is asked for, then the rest. */
export function callLine(tool: string, given: Given, theme: Theme): Component {
  const main = MAIN.flatMap((name) => (given[name] === undefined ? [] : [JSON.stringify(cut(line(String(given[name])), 100))]));
  const rest = Object.entries(given).filter(([name, value]) => !MAIN.includes(name) && value !== undefined);
  const more = rest.map(([name, value]) => `${name} ${cut(line(String(value)), 60)}`).join(", ");
  const parts = [["accent", main.join(" ")], ["dim", more]] as const;
  return text([theme.fg("toolTitle", theme.bold(tool)), ...parts.flatMap(([colour, part]) => (part ? [theme.fg(colour, part)] : []))].join(" "));
}

/** A result: how many and the first names; all of it when unfolded. */
export function resultText(result: AgentToolResult<Partial<Details>>, expanded: boolean, isPartial: boolean, theme: Theme): Component {
  if (isPartial) return text(theme.fg("warning", "searching…"));
  const said = result.content.map((part) => (part.type === "text" ? part.text : "")).join("\n");
  const { shown, total, via, started, model } = result.details ?? {};
  if (shown === undefined) return text(theme.fg("error", said));
  const what = said.startsWith(OF_SESSION) ? "messages and calls" : "found";
  const heading = theme.fg(shown > 0 ? "success" : "warning", total !== undefined && total > shown ? `${shown} of ${total}` : `${shown} ${what}`);
  const notes = [...(model ? [`answered by ${model}`] : []), ...(via === "sesamectl" ? ["through sesamectl"] : []), ...(started ? ["sesamed started"] : [])];
  const first = notes.length > 0 ? `${heading} ${theme.fg("warning", `(${notes.join(", ")})`)}` : heading;
  return text([first, ...(expanded ? said.split("\n").map((one) => painted(one, theme)) : folded(said, theme))].join("\n"));
}

/** A reference that was resolved. */
export const referenceLine: MessageRenderer<{ names?: string[] }> = (message, { expanded }, theme) => {
  const names = message.details?.names ?? [];
  const first = `${theme.fg("customMessageLabel", "@@")} ${theme.fg("muted", names.join(", ") || "past session")}`;
  const said = typeof message.content === "string" ? message.content.split("\n").map((one) => painted(one, theme)) : [];
  return text([first, ...(expanded ? said : [])].join("\n"));
};

function folded(said: string, theme: Theme): string[] {
  const names = said.split("\n").filter((one, index) => /^\d+\. /.test(one) || (index === 0 && one.startsWith(OF_SESSION)));
  const more = names.length > NAMES_SHOWN ? [theme.fg("dim", `… ${names.length - NAMES_SHOWN} more`)] : [];
  return [...names.slice(0, NAMES_SHOWN).map((one) => theme.fg("muted", one)), ...more];
}

function painted(one: string, theme: Theme): string {
  if (/^\s*>/.test(one)) return theme.fg("toolOutput", one);
  return theme.fg(/^(?:\d+\. |\[\d+\] |Session )/.test(one) ? "accent" : "dim", one);
}

function text(content: string): Component {
  return new Text(content, 0, 0);
}
