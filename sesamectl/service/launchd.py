"""macOS's launchd: agents below ~/Library/LaunchAgents, and launchctl."""

import os
import plistlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from xml.parsers.expat import ExpatError

from sesamectl.errors import RpcError
from sesamectl.service.unit import Spec, load_template, log_path, read_regular, run_command

LABEL = "sesame.sesamed"
ASKER_LABEL = "sesame.remember"
RETRY_S = 0.2
UNLOAD_S = 15.0  # `bootout` returns before the job is gone, and until then `bootstrap` fails


class Agent:
    """An agent in the user's own domain of launchd."""

    name = "launchd"

    def __init__(self, environ: Mapping[str, str], label: str, words: Sequence[str]) -> None:
        self.label = label
        self._words = list(words)  # of ours, behind the interpreter: no other agent has them
        self._environ = dict(environ)
        self._domain = f"gui/{os.geteuid()}"

    def unavailable(self) -> str:
        """Why launchd cannot be used here."""
        try:
            code, _ = self._launchctl("print", self._domain)
        except FileNotFoundError:
            return "this machine has no launchctl"
        return (
            "" if code == 0 else "launchd starts agents only for users who are logged in at the screen, and you are not"
        )

    def unit_path(self) -> str:
        """The agent's plist."""
        return os.path.expanduser(f"~/Library/LaunchAgents/{self.label}.plist")

    def parse(self, text: str) -> Spec | None:
        """What a plist of ours starts. It has no comments, so its arguments say whose it is."""
        try:
            plist = plistlib.loads(text.encode("utf-8", "surrogateescape"))
            words = plist["ProgramArguments"]
            at = words.index("-P", 1)
            environment = plist["EnvironmentVariables"]
        except (ValueError, LookupError, TypeError, AttributeError, plistlib.InvalidFileException, ExpatError):
            return None
        return Spec(words[at - 1], environment) if words[at:][: len(self._words)] == self._words else None

    def find_foreign(self) -> str:
        """What has the name of our plist and is not ours."""
        is_foreign = os.path.lexists(self.unit_path()) and not self.list_installed()
        return f"{self.unit_path()} was not written by sesame" if is_foreign else ""

    def load(self) -> None:
        """launchd reads a plist when it is enabled."""

    def disable(self) -> list[str]:
        """Stop and unload it."""
        return [f"unloaded {self.label}"] if self._unload() else []

    def reload(self) -> None:
        """launchd needs no reload."""

    def list_installed(self) -> list[str]:
        """Those of our files that exist."""
        text = read_regular(self.unit_path())
        return [self.unit_path()] if text is not None and self.parse(text) is not None else []

    def list_links(self) -> list[str]:
        """The plist is all there is."""
        return []

    def _load_anew(self) -> None:
        """Unload and load it again. What somebody has disabled cannot be loaded."""
        self._unload()
        self._launchctl("enable", f"{self._domain}/{self.label}")
        deadline = time.monotonic() + UNLOAD_S
        while (tried := self._launchctl("bootstrap", self._domain, self.unit_path()))[0]:
            if time.monotonic() >= deadline:
                raise RpcError(0, f"`launchctl bootstrap {self._domain} {self.unit_path()}` failed: {tried[1]}")
            time.sleep(RETRY_S)

    def _unload(self) -> bool:
        """Returns whether it was loaded."""
        if self._print()[0]:
            return False
        self._launchctl("bootout", f"{self._domain}/{self.label}")
        deadline = time.monotonic() + UNLOAD_S
        while self._print()[0] == 0:
            if time.monotonic() >= deadline:
                job = f"{self._domain}/{self.label}"
                said = f"launchd did not unload {self.label} within {UNLOAD_S:g} s; try `launchctl bootout {job}`"
                raise RpcError(0, said)
            time.sleep(RETRY_S)
        return True

    def _print(self) -> tuple[int, str]:
        return self._launchctl("print", f"{self._domain}/{self.label}")

    def _launchctl(self, *words: str) -> tuple[int, str]:
        return run_command(["launchctl", *words], self._environ)


class Launchd(Agent):
    """The daemon's agent."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ, LABEL, ("-P", "-m", "sesamed"))

    def render(self, spec: Spec, *, socket: bool) -> dict[str, str]:
        """The template, filled in."""
        values = {"@PYTHON@": spec.python, "@LOG@": log_path(spec.environment), "@SOCKET@": spec.socket}
        plist = _fill(plistlib.loads(load_template("launchd", f"{LABEL}.plist").encode()), values)
        plist["EnvironmentVariables"] = dict(spec.environment)
        if not socket:
            del plist["Sockets"]
        return {self.unit_path(): plistlib.dumps(plist).decode()}

    def start_command(self) -> list[str]:
        """`launchctl kickstart` returns at once; the daemon is ready when its socket answers."""
        return ["launchctl", "kickstart", f"{self._domain}/{LABEL}"]

    def last_words(self) -> str:
        """launchd keeps none; the daemon's are in its log."""
        return ""

    def detach_prefix(self) -> list[str]:
        """A session of its own is enough on macOS."""
        return []

    def enable(self, files: Mapping[str, str]) -> list[str]:
        """RunAtLoad starts it."""
        self._load_anew()
        return [f"loaded {LABEL}: it runs now and starts at every login"]

    def holds_socket(self) -> bool:
        """With sockets in the plist."""
        return "<key>Sockets</key>" in (read_regular(self.unit_path()) or "")

    def read_state(self) -> dict[str, Any]:
        """What `launchctl print` says about the agent."""
        code, output = self._print()
        pid = re.search(r"^\s*pid = (\d+)$", output, re.MULTILINE)
        return {
            "active": ("active" if pid else "inactive") if code == 0 else "not loaded",
            "enabled": code == 0,
            "pid": int(pid[1]) if pid else None,
            "says": "",
            "restarts": None,
            "result": "",
            "socket": self.holds_socket(),
            "dropIns": [],
        }


class LaunchdTimer(Agent):
    """The agent by which sessions are remembered."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ, ASKER_LABEL, ("-P", "-m", "sesamectl", "remember", "--auto"))

    def render(self, spec: Spec, hours: int) -> dict[str, str]:
        """The template, filled in. launchd knows no intervals that count while the machine sleeps, so the hours are listed."""
        values = {"@PYTHON@": spec.python, "@LOG@": log_path(spec.environment), "@HOME@": os.path.expanduser("~")}
        plist = _fill(plistlib.loads(load_template("launchd", f"{ASKER_LABEL}.plist").encode()), values)
        plist["EnvironmentVariables"] = dict(spec.environment)
        times = [12] if hours == 24 else range(0, 24, hours)
        plist["StartCalendarInterval"] = [{"Hour": hour, "Minute": 0} for hour in times]
        return {self.unit_path(): plistlib.dumps(plist).decode()}

    def enable(self) -> list[str]:
        """From now on, and from each login on."""
        self._load_anew()
        return [f"loaded {ASKER_LABEL}"]

    def read_state(self) -> dict[str, Any]:
        """What `launchctl print` says about the agent. It knows no times."""
        code, output = self._print()
        ended = re.search(r"^\s*last exit code = (\d+)", output, re.MULTILINE)
        result = "" if ended is None else "success" if ended[1] in {"0", "130"} else "exit-code"
        is_running = re.search(r"^\s*pid = \d+$", output, re.MULTILINE) is not None
        return {"active": code == 0, "next": None, "last": None, "running": is_running, "result": result}


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    """The plist with its placeholders replaced."""
    if isinstance(value, dict):
        return {name: _fill(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, values) for each in value]
    return values.get(value, value) if isinstance(value, str) else value
