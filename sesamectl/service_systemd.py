"""The user's own systemd: units below ~/.config/systemd/user, and systemctl."""

from __future__ import annotations

import os
import shutil

from sesamectl.errors import RpcError
from sesamectl.service import command, read, template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sesamectl.service import Wanted

SERVICE, SOCKET = "sesamed.service", "sesamed.socket"
SHOWN = ("ActiveState", "SubState", "UnitFileState", "MainPID", "StatusText", "Result", "NRestarts", "FragmentPath")


class Systemd:
    """The manager of `systemctl --user`."""

    name = "systemd"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
        self._environ = {**environ, "XDG_RUNTIME_DIR": self._runtime, "LC_ALL": "C.UTF-8"}
        base = environ.get("XDG_CONFIG_HOME", "")
        self._directory = os.path.join(
            base if os.path.isabs(base) else os.path.expanduser("~/.config"), "systemd", "user"
        )

    def missing(self) -> str:
        """Why it cannot be used here."""
        if shutil.which("systemctl") is None:
            return "there is no systemd on this machine"
        if not os.path.exists(os.path.join(self._runtime, "systemd", "private")):
            return "no systemd user manager runs for you (`loginctl enable-linger` starts one without a login)"
        return ""

    def unit(self) -> str:
        """The service's file."""
        return os.path.join(self._directory, SERVICE)

    def files(self, wanted: Wanted, *, socket: bool) -> dict[str, str]:
        """The templates, filled in."""
        environment = " ".join(_quoted(f"{name}={value}") for name, value in wanted.environment.items())
        service = template("systemd", SERVICE).replace("@PYTHON@", _quoted(wanted.python))
        found = {self.unit(): service.replace("@ENVIRONMENT@", environment)}
        if socket:
            text = template("systemd", SOCKET).replace("@SOCKET@", wanted.socket.replace("%", "%%"))
            found[self._socket_unit()] = text
        return found

    def starts(self, text: str, socket: str) -> bool:
        """Whether the unit names this socket."""
        return _quoted(f"SESAME_SOCKET={socket}") in text

    def start_command(self) -> list[str]:
        """systemctl waits until the daemon is ready."""
        return ["env", f"XDG_RUNTIME_DIR={self._runtime}", "systemctl", "--user", "start", SERVICE]

    def apart(self) -> list[str]:
        """In a scope of its own: terminals have theirs, and end all that is in it when a tab is closed."""
        there = os.path.exists(os.path.join(self._runtime, "bus")) and shutil.which("systemd-run") is not None
        if not there or self.missing():
            return []
        return ["env", f"XDG_RUNTIME_DIR={self._runtime}", "systemd-run", "--user", "--scope", "--collect", "--quiet"]

    def switch_on(self, files: Mapping[str, str]) -> list[str]:
        """Load, enable, start. The socket comes first: a service that is there already has bound its own."""
        self._do("daemon-reload")
        loaded = self._shown("FragmentPath")
        if os.path.realpath(loaded) != os.path.realpath(self.unit()):
            raise RpcError(
                0,
                f"systemd reads its units elsewhere ({loaded or 'nowhere'}, not {self.unit()}); are HOME and XDG_CONFIG_HOME right?",
            )
        names = [SOCKET, SERVICE] if self._socket_unit() in files else [SERVICE]
        self._do("reset-failed", *names, may_fail=True)
        for name in names:
            self._do("enable", "--now", name)
        return [f"enabled and started {name}" for name in reversed(names)]

    def switch_off(self) -> list[str]:
        """Socket first, or the next client would start the service again."""
        names = [name for name in (SOCKET, SERVICE) if os.path.lexists(os.path.join(self._directory, name))]
        for name in names:
            self._do("disable", "--now", name)
        return [f"stopped and disabled {name}" for name in names]

    def forget(self) -> None:
        """The units' files are gone."""
        self._do("daemon-reload")
        self._do("reset-failed", SERVICE, SOCKET, may_fail=True)

    def leftovers(self) -> list[str]:
        """Files of ours that are there."""
        return [path for path in (self._socket_unit(), self.unit()) if os.path.lexists(path)]

    def state(self) -> dict[str, Any]:
        """What systemd knows of the service."""
        code, said = self._systemctl("show", SERVICE, *(f"--property={name}" for name in SHOWN))
        known = dict(line.partition("=")[::2] for line in said.split("\n")) if code == 0 else {}
        return {
            "active": known.get("ActiveState", "unknown"), "enabled": known.get("UnitFileState") == "enabled",
            "pid": int(known.get("MainPID") or 0) or None, "says": known.get("StatusText", ""),
            "restarts": int(known.get("NRestarts") or 0), "result": known.get("Result", ""),
            "socket": read(self._socket_unit()) is not None,
        }  # fmt: skip

    def _socket_unit(self) -> str:
        return os.path.join(self._directory, SOCKET)

    def _shown(self, name: str) -> str:
        return self._systemctl("show", SERVICE, f"--property={name}", "--value")[1]

    def _do(self, *words: str, may_fail: bool = False) -> None:
        code, said = self._systemctl(*words)
        if code and not may_fail:
            last = said.split("\n")[0] or f"exit {code}"
            raise RpcError(0, f"`systemctl --user {' '.join(words)}` failed: {last}; see `sesamectl service logs`")

    def _systemctl(self, *words: str) -> tuple[int, str]:
        return command(["systemctl", "--user", "--no-pager", "--quiet", *words], self._environ)


def _quoted(text: str) -> str:
    """As systemd reads it back: quotes, backslashes and specifiers escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
