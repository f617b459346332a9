/** In which time zone days are meant, for the daemon: it may have been started in another one than pi. As `sesamectl` says it (`zone.py`). */
import { statSync } from "node:fs";

const ZONES = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];

/** The machine's, unless this process has another: by its name, or, of one without, by how far it is ahead now. */
export function zone(environ: NodeJS.ProcessEnv = process.env): string {
  if (environ.TZ === undefined) return "local";
  let name = environ.TZ.replace(/^:/, "");
  for (const directory of ZONES) if (name.startsWith(`${directory}/`)) name = name.slice(directory.length + 1);
  if (/^[A-Z]/i.test(name) && !name.includes("..") && ZONES.some((directory) => statSync(`${directory}/${name}`, { throwIfNoEntry: false })?.isFile())) return name;
  const minutes = -new Date().getTimezoneOffset();
  const two = (number: number) => String(Math.trunc(number)).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}
