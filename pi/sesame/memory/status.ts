/** What pi's status line says of session memory, for a while; and nothing once the session is over, whose surroundings are gone then. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { Settings } from "../settings.ts";
import { cut, line } from "../text.ts";

export class Status {
  readonly #ctx: ExtensionContext;
  readonly #settings: Pick<Settings, "statusKey" | "notificationAutoClearMs">;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(ctx: ExtensionContext, settings: Pick<Settings, "statusKey" | "notificationAutoClearMs">) {
    this.#ctx = ctx;
    this.#settings = settings;
  }

  /** Something that goes on. */
  doing(text: string): void {
    clearTimeout(this.#timer);
    this.#show(text);
  }

  /** How it ended, if there is something to be said. */
  done(text: string | undefined): void {
    clearTimeout(this.#timer);
    this.#show(text);
    if (text === undefined) return;
    this.#timer = setTimeout(() => this.#show(undefined), this.#settings.notificationAutoClearMs);
    this.#timer.unref();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#isOver = true;
  }

  #show(text: string | undefined): void {
    if (!this.#isOver && this.#ctx.hasUI) this.#ctx.ui.setStatus(this.#settings.statusKey, text === undefined ? undefined : cut(line(text), 200));
  }
}

/** Dollars, as pi shows them. */
export function dollars(usd: number): string {
  return `$${usd.toFixed(4)}`;
}
