/** `/sessions WORDS`: find, choose, open. Everything shown is the daemon's word: no session file is read for it. */
import type { ExtensionAPI, ExtensionCommandContext } from "@earendil-works/pi-coding-agent";
import { asker, STARTED, way } from "./ask.ts";
import { beginning } from "./present.ts";
import { isReference } from "./references.ts";
import { cut, line, minute } from "./text.ts";
import { explained } from "./trouble.ts";
import type { Found, Hit, Listed, Meta, Session } from "./wire.ts";

const MOST = 20;

export function registerCommand(pi: ExtensionAPI, name: string): void {
  pi.registerCommand(name, {
    description: "Find a past session by words and open it; without words, the latest of this project",
    handler: async (words, ctx) => {
      try {
        await chosen(pi, words.trim(), ctx);
      } catch (error) {
        if (!ctx.hasUI) throw error;
        ctx.ui.notify(explained(error).message, "error");
      }
    },
  });
}

async function chosen(pi: ExtensionAPI, words: string, ctx: ExtensionCommandContext): Promise<void> {
  if (!ctx.hasUI) throw new Error("this command lets a person choose; here is nobody. Ask the model to search, or run `sesamectl search`");
  const how = way();
  const ask = asker((command, args, options) => pi.exec(command, args, options), how);
  const exclude = [ctx.sessionManager.getSessionId()];
  const sessions = words
    ? (await ask<Found>("search", { query: words, exclude, limit: MOST, fresh: true })).results
    : (await ask<Listed>("list_sessions", { cwd: ctx.cwd, exclude, subagents: "exclude", limit: MOST })).sessions;
  if (how.started) ctx.ui.notify(STARTED, "info");
  if (sessions.length === 0) return ctx.ui.notify(words ? `No past session matches ${line(words)}` : "No past sessions of this project", "info");
  const options = sessions.map(option);
  const session = sessions[options.indexOf((await ctx.ui.select(words ? `Sessions with ${line(words)}` : "Sessions of this project", options)) ?? "")];
  if (session) await open(session, await ask<Meta>("get_session_meta", { sessionId: session.sessionId }), ctx);
}

/** A session in a line; of one that was found, also the passage, by which sessions of one name are told apart. */
function option(session: Session & Partial<Pick<Hit, "matchedSnippet">>, index: number): string {
  const passage = cut(line(session.matchedSnippet ?? ""), 60);
  const parts = [String(index + 1).padStart(2), minute(session.modified), cut(line(session.name ?? "(no name)"), 60), [line(session.source), place(session)].filter(Boolean).join(" ") + (session.gone ? " (gone)" : "")];
  return [...parts, ...(passage ? [passage] : [])].join("  ");
}

/** The end of the directory, by which a person knows it. */
function place(session: Session): string {
  return cut(line(session.cwd ?? "").split("/").slice(-2).join("/"), 80);
}

/** pi's own sessions are opened; of others, how to, and a reference to ask about it here. */
async function open(session: Session, meta: Meta, ctx: ExtensionCommandContext): Promise<void> {
  if (session.source === "pi" && !session.gone) {
    await ctx.switchSession(session.path);
    return; // this context is gone
  }
  const why = session.gone ? "its file is gone" : `it is a session of ${line(session.source)}`;
  const no = meta.resumeProblem && !session.gone ? `, and ${cut(line(meta.resumeProblem.message), 1000)}` : "";
  const how = meta.resume ? `; open it with \`${cut(line(meta.resume.command.join(" ")), 1000)}\` in ${cut(line(meta.resume.cwd ?? "its directory"), 1000)}` : no;
  ctx.ui.notify(`pi cannot open it: ${why}${how}`, "info");
  if (isReference(beginning(session.sessionId))) ctx.ui.pasteToEditor(`@@${beginning(session.sessionId)} `);
}
