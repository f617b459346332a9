"""macOS's launchd: an agent below ~/Library/LaunchAgents, and launchctl."""

import os
import plistlib
import re
import time
from collections.abc import Mapping
from typing import Any
from xml.parsers.expat import ExpatError

from sesamectl.errors import RpcError
from sesamectl.service.unit import Spec, load_template, log_path, read_regular, run_command

LABEL = "sesame.sesamed"
RETRY_S = 0.2
UNLOAD_S = 15.0  # `bootout` returns before the job is gone, and until then `bootstrap` fails


class Launchd:
    """The user's own domain of launchd."""

    name = "launchd"

    def __init__(self, environ: Mapping[str, str]) -> None:
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
        return os.path.expanduser(f"~/Library/LaunchAgents/{LABEL}.plist")

    def render(self, spec: Spec, *, socket: bool) -> dict[str, str]:
        """The template, filled in."""
        values = {"@PYTHON@": spec.python, "@LOG@": log_path(spec.environment), "@SOCKET@": spec.socket}
        plist = _fill(plistlib.loads(load_template("launchd", f"{LABEL}.plist").encode()), values)
        plist["EnvironmentVariables"] = dict(spec.environment)
        if not socket:
            del plist["Sockets"]
        return {self.unit_path(): plistlib.dumps(plist).decode()}

    def parse(self, text: str) -> Spec | None:
        """What a plist of ours starts. It has no comments, so its arguments say whose it is."""
        try:
            plist = plistlib.loads(text.encode("utf-8", "surrogateescape"))
            words = plist["ProgramArguments"]
            at = words.index("-P", 1)
            environment = plist["EnvironmentVariables"]
        except (ValueError, LookupError, TypeError, AttributeError, plistlib.InvalidFileException, ExpatError):
            return None
        return Spec(words[at - 1], environment) if words[at:][:3] == ["-P", "-m", "sesamed"] else None

    def find_foreign(self) -> str:
        """What has the name of our plist and is not ours."""
        is_foreign = os.path.lexists(self.unit_path()) and not self.list_installed()
        return f"{self.unit_path()} was not written by sesame" if is_foreign else ""

    def start_command(self) -> list[str]:
        """`launchctl kickstart` returns at once; the daemon is ready when its socket answers."""
        return ["launchctl", "kickstart", f"{self._domain}/{LABEL}"]

    def last_words(self) -> str:
        """launchd keeps none; the daemon's are in its log."""
        return ""

    def detach_prefix(self) -> list[str]:
        """A session of its own is enough on macOS."""
        return []

    def load(self) -> None:
        """launchd reads a plist when it is enabled."""

    def enable(self, files: Mapping[str, str]) -> list[str]:
        """Unload and load it again; RunAtLoad starts it. What somebody has disabled cannot be loaded."""
        self._unload()
        self._launchctl("enable", f"{self._domain}/{LABEL}")
        deadline = time.monotonic() + UNLOAD_S
        while (tried := self._launchctl("bootstrap", self._domain, self.unit_path()))[0]:
            if time.monotonic() >= deadline:
                raise RpcError(0, f"`launchctl bootstrap {self._domain} {self.unit_path()}` failed: {tried[1]}")
            time.sleep(RETRY_S)
        return [f"loaded {LABEL}: it runs now and starts at every login"]

    def disable(self) -> list[str]:
        """Stop and unload it."""
        return [f"unloaded {LABEL}"] if self._unload() else []

    def reload(self) -> None:
        """launchd needs no reload."""

    def list_installed(self) -> list[str]:
        """Those of our files that exist."""
        text = read_regular(self.unit_path())
        return [self.unit_path()] if text is not None and self.parse(text) is not None else []

    def holds_socket(self) -> bool:
        """With sockets in the plist."""
        return "<key>Sockets</key>" in (read_regular(self.unit_path()) or "")

    def list_links(self) -> list[str]:
        """The plist is all there is."""
        return []

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

    def _unload(self) -> bool:
        """Returns whether it was loaded."""
        if self._print()[0]:
            return False
        self._launchctl("bootout", f"{self._domain}/{LABEL}")
        deadline = time.monotonic() + UNLOAD_S
        while self._print()[0] == 0:
            if time.monotonic() >= deadline:
                raise RpcError(
                    0,
                    f"launchd did not unload {LABEL} within {UNLOAD_S:g} s; try `launchctl bootout {self._domain}/{LABEL}`",
                )
            time.sleep(RETRY_S)
        return True

    def _print(self) -> tuple[int, str]:
        return self._launchctl("print", f"{self._domain}/{LABEL}")

    def _launchctl(self, *words: str) -> tuple[int, str]:
        return run_command(["launchctl", *words], self._environ)


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    """The plist with its placeholders replaced."""
    if isinstance(value, dict):
        return {name: _fill(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, values) for each in value]
    return values.get(value, value) if isinstance(value, str) else value
