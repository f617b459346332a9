/** What the person chose, and what keeps us from it: no model that can be asked, another extension that does the same, another pi whose work this one is. */
import { type ExtensionAPI, type ExtensionContext, getAgentDir } from "@earendil-works/pi-coding-agent";
import { type Chosen, chooseModel } from "../model.ts";
import { DEFAULTS, readSettings, type Settings, settingsFile } from "../settings.ts";

const IN_PI = "SESAME_IN_PI"; // which pi, for all that it starts: the shell of pi 0.74 tells nobody
const IS_CHILD = process.env.PI_SESSION_ID !== undefined || ![undefined, String(process.pid)].includes(process.env[IN_PI]);

export class Choice {
  readonly agentDirectory = getAgentDir();
  readonly isTheirs: boolean; // session-index is loaded here
  #settings = DEFAULTS; // as usual, where they are wrong
  #wrong: string | undefined;

  constructor(pi: ExtensionAPI) {
    this.look();
    const names = [this.settings.commandName, DEFAULTS.commandName];
    this.isTheirs = pi.getCommands().some(({ source, name }) => source === "extension" && names.includes(name));
    process.env[IN_PI] ??= String(process.pid);
  }

  get settings(): Settings {
    return this.#settings;
  }

  /** What stands in the file now: whoever takes a model out of it has nothing sent to it any more, also by a pi that runs. */
  look(): void {
    [this.#settings, this.#wrong] = [DEFAULTS, undefined];
    try {
      this.#settings = readSettings(this.agentDirectory);
    } catch (error) {
      this.#wrong = (error as Error).message;
    }
  }

  /** Whether a model was chosen, for what this pi does by itself. */
  get isOn(): boolean {
    return this.settings.modelKeys.length > 0 && !IS_CHILD;
  }

  /** The model that is asked. Throws if there is none. */
  model(ctx: ExtensionContext): Chosen {
    this.look();
    return chooseModel(ctx.modelRegistry, this.settings.modelKeys);
  }

  /** What the person ought to know: what they chose cannot be. */
  trouble(ctx: ExtensionContext): string | undefined {
    this.look();
    if (this.#wrong !== undefined) return this.#wrong;
    if (!this.isOn) return undefined;
    if (this.isTheirs) return `another extension has the command /${this.settings.commandName}`;
    try {
      this.model(ctx);
      return undefined;
    } catch (error) {
      return `${(error as Error).message} (modelKeys in ${settingsFile(this.agentDirectory)})`;
    }
  }

  /** Why not even who asks for it can have it. */
  refusal(ctx: ExtensionContext): string | undefined {
    const trouble = this.trouble(ctx);
    if (trouble !== undefined) return trouble;
    if (IS_CHILD) return "this pi was started by another one, whose work it is a part of: it is not indexed by itself";
    if (!this.isOn) return `no model is chosen: put modelKeys into ${settingsFile(this.agentDirectory)}, such as {"modelKeys": ["provider/model"]}`;
    return ctx.sessionManager.getSessionFile() === undefined ? "pi keeps no file of this session, so there is nothing to index" : undefined;
  }
}
