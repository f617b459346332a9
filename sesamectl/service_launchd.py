"""macOS's launchd: an agent below ~/Library/LaunchAgents, and launchctl."""

from __future__ import annotations

import os
import re
import time

from sesamectl.errors import RpcError
from sesamectl.service import command, read, template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sesamectl.service import Wanted

LABEL = "sesame.sesamed"
AGAIN_S = 0.2
PATIENCE_S = 15.0  # `bootout` returns before the job is gone, and until then `bootstrap` fails


class Launchd:
    """The user's own domain of launchd."""

    name = "launchd"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._domain = f"gui/{os.geteuid()}"

    def missing(self) -> str:
        """Why it cannot be used here."""
        try:
            code, _ = self._launchctl("print", self._domain)
        except FileNotFoundError:
            return "there is no launchctl on this machine"
        return "" if code == 0 else "you are not logged in at the screen, and launchd starts agents only for who is"

    def unit(self) -> str:
        """The agent's plist."""
        return os.path.expanduser(f"~/Library/LaunchAgents/{LABEL}.plist")

    def files(self, wanted: Wanted, *, socket: bool) -> dict[str, str]:
        """The template, filled in."""
        import plistlib

        values = {"@PYTHON@": wanted.python, "@LOG@": wanted.log, "@SOCKET@": wanted.socket}
        plist = _filled(plistlib.loads(template("launchd", f"{LABEL}.plist").encode()), values)
        plist["EnvironmentVariables"] = dict(wanted.environment)
        if not socket:
            del plist["Sockets"]
        return {self.unit(): plistlib.dumps(plist).decode()}

    def starts(self, text: str, socket: str) -> bool:
        """Whether the plist names this socket."""
        import plistlib

        try:
            return bool(plistlib.loads(text.encode())["EnvironmentVariables"]["SESAME_SOCKET"] == socket)
        except (ValueError, LookupError, TypeError, plistlib.InvalidFileException):
            return False

    def start_command(self) -> list[str]:
        """Returns at once; the daemon is ready when its socket answers."""
        return ["launchctl", "kickstart", f"{self._domain}/{LABEL}"]

    def apart(self) -> list[str]:
        """A session of its own is enough."""
        return []

    def switch_on(self, files: Mapping[str, str]) -> list[str]:
        """Load it anew; RunAtLoad starts it."""
        self._unload()
        deadline = time.monotonic() + PATIENCE_S
        while (tried := self._launchctl("bootstrap", self._domain, self.unit()))[0]:
            if time.monotonic() >= deadline:
                raise RpcError(0, f"`launchctl bootstrap {self._domain} {self.unit()}` failed: {tried[1]}")
            time.sleep(AGAIN_S)
        return [f"loaded {LABEL}: it runs now and at every login"]

    def switch_off(self) -> list[str]:
        """Stop and unload it."""
        return [f"unloaded {LABEL}"] if self._unload() else []

    def forget(self) -> None:
        """There is nothing more to tell launchd."""

    def leftovers(self) -> list[str]:
        """Files of ours that are there."""
        return [self.unit()] if os.path.lexists(self.unit()) else []

    def state(self) -> dict[str, Any]:
        """What launchd knows of the agent."""
        code, said = self._print()
        pid = re.search(r"^\s*pid = (\d+)$", said, re.MULTILINE)
        return {
            "active": ("active" if pid else "inactive") if code == 0 else "not loaded", "enabled": code == 0,
            "pid": int(pid[1]) if pid else None, "says": "", "restarts": None, "result": "",
            "socket": "<key>Sockets</key>" in (read(self.unit()) or ""),
        }  # fmt: skip

    def _unload(self) -> bool:
        """Whether there was something to unload."""
        if self._print()[0]:
            return False
        self._launchctl("bootout", f"{self._domain}/{LABEL}")
        deadline = time.monotonic() + PATIENCE_S
        while self._print()[0] == 0:
            if time.monotonic() >= deadline:
                raise RpcError(0, f"launchd does not let go of {LABEL}; `launchctl bootout {self._domain}/{LABEL}`")
            time.sleep(AGAIN_S)
        return True

    def _print(self) -> tuple[int, str]:
        return self._launchctl("print", f"{self._domain}/{LABEL}")

    def _launchctl(self, *words: str) -> tuple[int, str]:
        return command(["launchctl", *words], self._environ)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """The plist with its placeholders replaced, wherever they stand."""
    if isinstance(value, dict):
        return {name: _filled(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    return values.get(value, value) if isinstance(value, str) else value
