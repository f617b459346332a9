"""The user's own systemd: units below ~/.config/systemd/user, and systemctl."""

import os
import re
import shutil
from collections.abc import Mapping
from glob import escape, glob
from typing import Any

from sesamectl.errors import RpcError
from sesamectl.service.unit import Spec, load_template, read_regular, run_command

SERVICE, SOCKET = "sesamed.service", "sesamed.socket"
MARK = "# Written by `sesamectl service install"  # begins our units
PROPERTIES = ("ActiveState", "UnitFileState", "MainPID", "StatusText", "Result", "NRestarts", "DropInPaths")
FAILED = "failed: "  # begins the status of a daemon that gives up
STRING = r'"((?:[^"\\]|\\.)*)"'
START_ANEW = """
case $(systemctl --user show "$@" --property=NeedDaemonReload) in *yes*) systemctl --user daemon-reload ;; esac
systemctl --user reset-failed "$@"
exec systemctl --user start "$@"
"""


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

    def parse(self, text: str) -> Spec | None:
        """What a service's file of ours starts, also if somebody has edited it."""
        if not text.startswith(MARK):
            return None
        python = re.search(rf"^ExecStart={STRING}", text, re.MULTILINE)
        given = re.search(r"^Environment=(.*)$", text, re.MULTILINE)
        named = (_unquote(item).partition("=") for item in re.findall(STRING, given[1] if given else ""))
        return Spec(_unquote(python[1]) if python else "", {name: value for name, _, value in named})

    def find_foreign(self) -> str:
        """What has the name of one of our units and is not ours."""
        for name in (SOCKET, SERVICE):
            path = os.path.join(self._directory, name)
            if os.path.lexists(path) and not self._is_ours(path):
                if os.path.realpath(path) == os.devnull:
                    return f"{name} is masked (`systemctl --user unmask {name}` undoes that)"
                return f"{path} was not written by sesame"
            shown = self._show(name, "LoadState", "FragmentPath") if not self.unavailable() else {}
            if shown.get("LoadState") == "masked":
                return f"{name} is masked by {shown['FragmentPath']}"
            loaded = shown.get("FragmentPath")
            if loaded and os.path.realpath(loaded) != os.path.realpath(path):
                return f"there is another {name}, {loaded}"
        return ""

    def start_command(self) -> list[str]:
        """`systemctl start` returns when the daemon is ready. It refuses what has failed too often, and starts what it has read: the reason
        may be gone by now.
        """
        names = [os.path.basename(path) for path in self.list_installed()]
        return ["env", f"XDG_RUNTIME_DIR={self._runtime}", "sh", "-c", START_ANEW, "sh", *names]

    def last_words(self) -> str:
        """Why the service ended: in the daemon's words if it had any, or else in systemd's."""
        return self._explain(SERVICE)

    def detach_prefix(self) -> list[str]:
        """Run it in a scope of its own: a terminal that closes a tab ends everything in that tab's scope."""
        there = os.path.exists(os.path.join(self._runtime, "bus")) and shutil.which("systemd-run") is not None
        if not there or self.unavailable():
            return []
        return ["env", f"XDG_RUNTIME_DIR={self._runtime}", "systemd-run", "--user", "--scope", "--collect", "--quiet"]

    def load(self) -> None:
        """Have systemd read the units again, and check that these are the ones that it reads."""
        self._run("daemon-reload")
        loaded = self._show(SERVICE, "FragmentPath").get("FragmentPath", "")
        if os.path.realpath(loaded) != os.path.realpath(self.unit_path()):
            raise RpcError(
                0,
                f"systemd loaded the unit from {loaded or 'nowhere'}, not from {self.unit_path()}; check HOME and XDG_CONFIG_HOME",
            )

    def enable(self, files: Mapping[str, str]) -> list[str]:
        """The socket first: a service that is already running would have bound its own."""
        names = [SOCKET, SERVICE] if self._socket_unit() in files else [SERVICE]
        self._run("reset-failed", *names, may_fail=True)
        for name in names:
            self._run("enable", "--now", name)
        return [f"enabled and started {name}" for name in reversed(names)]

    def disable(self) -> list[str]:
        """The socket first, or the next client would start the service again."""
        names = [os.path.basename(path) for path in self.list_installed()]
        for name in names:
            self._run("disable", "--now", name)
        return [f"stopped and disabled {name}" for name in names]

    def reload(self) -> None:
        """Forget the removed units, and their failures."""
        self._run("daemon-reload")
        self._run("reset-failed", SERVICE, SOCKET, may_fail=True)

    def list_installed(self) -> list[str]:
        """Those of our files that exist."""
        return [path for path in (self._socket_unit(), self.unit_path()) if self._is_ours(path)]

    def holds_socket(self) -> bool:
        """With a socket unit."""
        return self._is_ours(self._socket_unit())

    def list_links(self) -> list[str]:
        """`systemctl disable` removes them; without a manager we have to."""
        names = [os.path.basename(path) for path in self.list_installed()]
        places = [os.path.join(place, name) for place in glob(f"{escape(self._directory)}/*.wants") for name in names]
        return [path for path in places if os.path.islink(path)]

    def read_state(self) -> dict[str, Any]:
        """What `systemctl show` says about the service."""
        shown = self._show(SERVICE, *PROPERTIES)
        return {
            "active": shown.get("ActiveState", "unknown"),
            "enabled": shown.get("UnitFileState") == "enabled",
            "pid": int(shown.get("MainPID") or 0) or None,
            "says": shown.get("StatusText", "").removeprefix(FAILED),
            "restarts": int(shown.get("NRestarts") or 0),
            "result": shown.get("Result", ""),
            "socket": self.holds_socket(),
            "dropIns": shown.get("DropInPaths", "").split(),
        }

    def _socket_unit(self) -> str:
        return os.path.join(self._directory, SOCKET)

    def _is_ours(self, path: str) -> bool:
        return (read_regular(path) or "").startswith(MARK)

    def _show(self, unit: str, *names: str) -> dict[str, str]:
        """Properties of a unit as systemd knows it; none if it cannot be asked."""
        code, output = self._systemctl("show", unit, *(f"--property={name}" for name in names))
        return dict(line.partition("=")[::2] for line in output.split("\n")) if code == 0 else {}

    def _explain(self, unit: str) -> str:
        """Why it failed; empty if it did not, or has begun again."""
        shown = self._show(unit, "StatusText", "Result")
        says, result = shown.get("StatusText", ""), shown.get("Result", "success")
        if says.startswith(FAILED):
            return says.removeprefix(FAILED)
        return "" if result == "success" else f"systemd reports {result!r}"

    def _run(self, *words: str, may_fail: bool = False) -> None:
        code, output = self._systemctl(*words)
        if code and not may_fail:
            first = output.split("\n")[0] or f"exit {code}"
            why = self._explain(words[-1]) if words[0] == "enable" else ""
            raise RpcError(0, f"`systemctl --user {' '.join(words)}` failed: {why or first}")

    def _systemctl(self, *words: str) -> tuple[int, str]:
        return run_command(["systemctl", "--user", "--no-pager", "--quiet", *words], self._environ)


def _quote(text: str) -> str:
    """Quoted for a unit file: quotes, backslashes and specifiers escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _unquote(text: str) -> str:
    """What `_quote` was given, from what is between its quotes."""
    return re.sub(r"\\(.)", r"\1", text).replace("%%", "%")
