/** Something that a person waits for before anything is shown: after a moment pi's status line says so, and Escape ends it. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { matchesKey } from "@earendil-works/pi-tui";

const SAID_AFTER_MS = 300;

/** The person would rather not wait. */
export class Aborted extends Error {}

const SESAMED = "sesamed";

/** The work's result. In RPC mode no keys are pressed, and `signal` never fires. */
export async function waitedFor<T>(ctx: ExtensionContext, work: (signal: AbortSignal) => Promise<T>, whom = SESAMED): Promise<T> {
  const control = new AbortController();
  let end = () => {};
  const say = () => {
    ctx.ui.setStatus("sesame", `waiting for ${whom} … (escape gives the prompt back)`);
    const listens = ctx.ui.onTerminalInput?.((data) => {
      if (!matchesKey(data, "escape")) return undefined;
      control.abort();
      return { consume: true };
    });
    end = () => {
      listens?.();
      ctx.ui.setStatus("sesame", undefined);
    };
  };
  const timer = setTimeout(say, SAID_AFTER_MS);
  try {
    return await work(control.signal);
  } catch (error) {
    throw control.signal.aborted ? new Aborted("aborted") : error;
  } finally {
    clearTimeout(timer);
    end();
  }
}
