"""The user's own systemd: units below ~/.config/systemd/user, and systemctl."""

import os
import shutil
from collections.abc import Mapping
from typing import Any

from sesamectl.errors import RpcError
from sesamectl.service.unit import Spec, load_template, read_text, run_command

SERVICE, SOCKET = "sesamed.service", "sesamed.socket"
PROPERTIES = (
    "ActiveState",
    "SubState",
    "UnitFileState",
    "MainPID",
    "StatusText",
    "Result",
    "NRestarts",
    "FragmentPath",
)


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

    def unavailable(self) -> str:
        """Why systemd cannot be used here."""
        if shutil.which("systemctl") is None:
            return "this machine has no systemd"
        if not os.path.exists(os.path.join(self._runtime, "systemd", "private")):
            return "your systemd user manager is not running (`loginctl enable-linger` starts it without a login)"
        return ""

    def unit_path(self) -> str:
        """The service's file."""
        return os.path.join(self._directory, SERVICE)

    def render(self, spec: Spec, *, socket: bool) -> dict[str, str]:
        """The templates, filled in."""
        environment = " ".join(_quote(f"{name}={value}") for name, value in spec.environment.items())
        service = load_template("systemd", SERVICE).replace("@PYTHON@", _quote(spec.python))
        found = {self.unit_path(): service.replace("@ENVIRONMENT@", environment)}
        if socket:
            text = load_template("systemd", SOCKET).replace("@SOCKET@", spec.socket.replace("%", "%%"))
            found[self._socket_unit()] = text
        return found

    def serves(self, text: str, socket: str) -> bool:
        """Whether the unit names this socket."""
        return _quote(f"SESAME_SOCKET={socket}") in text

    def start_command(self) -> list[str]:
        """`systemctl start` returns when the daemon is ready."""
        return ["env", f"XDG_RUNTIME_DIR={self._runtime}", "systemctl", "--user", "start", SERVICE]

    def detach_prefix(self) -> list[str]:
        """Run it in a scope of its own: a terminal that closes a tab ends everything in that tab's scope."""
        there = os.path.exists(os.path.join(self._runtime, "bus")) and shutil.which("systemd-run") is not None
        if not there or self.unavailable():
            return []
        return ["env", f"XDG_RUNTIME_DIR={self._runtime}", "systemd-run", "--user", "--scope", "--collect", "--quiet"]

    def enable(self, files: Mapping[str, str]) -> list[str]:
        """The socket first: a service that is already running would have bound its own."""
        self._run("daemon-reload")
        loaded = self._property("FragmentPath")
        if os.path.realpath(loaded) != os.path.realpath(self.unit_path()):
            raise RpcError(
                0,
                f"systemd loaded the unit from {loaded or 'nowhere'}, not from {self.unit_path()}; check HOME and XDG_CONFIG_HOME",
            )
        names = [SOCKET, SERVICE] if self._socket_unit() in files else [SERVICE]
        self._run("reset-failed", *names, may_fail=True)
        for name in names:
            self._run("enable", "--now", name)
        return [f"enabled and started {name}" for name in reversed(names)]

    def disable(self) -> list[str]:
        """The socket first, or the next client would start the service again."""
        names = [name for name in (SOCKET, SERVICE) if os.path.lexists(os.path.join(self._directory, name))]
        for name in names:
            self._run("disable", "--now", name)
        return [f"stopped and disabled {name}" for name in names]

    def reload(self) -> None:
        """Forget the removed units, and their failures."""
        self._run("daemon-reload")
        self._run("reset-failed", SERVICE, SOCKET, may_fail=True)

    def list_installed(self) -> list[str]:
        """Those of our files that exist."""
        return [path for path in (self._socket_unit(), self.unit_path()) if os.path.lexists(path)]

    def read_state(self) -> dict[str, Any]:
        """What `systemctl show` says about the service."""
        code, output = self._systemctl("show", SERVICE, *(f"--property={name}" for name in PROPERTIES))
        shown = dict(line.partition("=")[::2] for line in output.split("\n")) if code == 0 else {}
        return {
            "active": shown.get("ActiveState", "unknown"),
            "enabled": shown.get("UnitFileState") == "enabled",
            "pid": int(shown.get("MainPID") or 0) or None,
            "says": shown.get("StatusText", ""),
            "restarts": int(shown.get("NRestarts") or 0),
            "result": shown.get("Result", ""),
            "socket": read_text(self._socket_unit()) is not None,
        }

    def _socket_unit(self) -> str:
        return os.path.join(self._directory, SOCKET)

    def _property(self, name: str) -> str:
        return self._systemctl("show", SERVICE, f"--property={name}", "--value")[1]

    def _run(self, *words: str, may_fail: bool = False) -> None:
        code, output = self._systemctl(*words)
        if code and not may_fail:
            last = output.split("\n")[0] or f"exit {code}"
            raise RpcError(0, f"`systemctl --user {' '.join(words)}` failed: {last}; see `sesamectl service logs`")

    def _systemctl(self, *words: str) -> tuple[int, str]:
        return run_command(["systemctl", "--user", "--no-pager", "--quiet", *words], self._environ)


def _quote(text: str) -> str:
    """Quoted for a unit file: quotes, backslashes and specifiers escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
