/**
 * Where the daemon's socket and its configuration are, and the program that starts the daemon. Knows nothing of how to talk to either.
 *
 * The socket's place follows from the user, in the order of docs/protocol.md, as for the daemon and every other client.
 */
import { existsSync, lstatSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const NAME = "sesamed.sock";
type Environ = Record<string, string | undefined>;

/** The socket's path. */
export function socketPath(environ: Environ = process.env): string {
  if (environ.SESAME_SOCKET) return resolve(environ.SESAME_SOCKET);
  if (environ.SESAME_RUNTIME_DIR) return join(environ.SESAME_RUNTIME_DIR, NAME);
  return join(defaultDirectory(), NAME);
}

/** The socket's directory when no variable names one. */
export function defaultDirectory(runUser = "/run/user"): string {
  const runtime = join(runUser, String(userId()));
  if (isPrivate(runtime)) return join(runtime, "sesame");
  return join(userInfo().homedir, ".local/state/sesame/run"); // of the user database, whatever HOME says
}

/** Whether the path is a directory of this user that nobody else can enter. A symbolic link is not: what it names may change. */
export function isPrivate(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found !== undefined && found.isDirectory() && found.uid === userId() && (found.mode & 0o077) === 0;
}

/** The configuration, whether it is there or not. A test holds this and sesamectl's equal. */
export function configFile(environ: Environ = process.env): string {
  const base = environ.XDG_CONFIG_HOME?.trim() ?? "";
  return join(environ.SESAME_CONFIG_DIR || join(isAbsolute(base) ? base : join(homedir(), ".config"), "sesame"), "config.jsonc");
}

function userId(): number {
  return process.geteuid?.() ?? -1;
}

/** The command line client: as told, or that of the installation which this package is part of, or of the PATH. */
export function clientProgram(environ: Environ = process.env, here = fileURLToPath(new URL(".", import.meta.url))): string {
  if (environ.SESAMECTL) return environ.SESAMECTL;
  const installed = join(here, "../../../../../../bin/sesamectl"); // <prefix>/lib/python3.x/site-packages/sesamectl/pi/sesame
  const checkout = join(here, "../../.venv/bin/sesamectl"); // <repository>/pi/sesame
  return [installed, checkout].find((path) => existsSync(path)) ?? "sesamectl";
}
