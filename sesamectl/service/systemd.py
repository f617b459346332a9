"""The user's own systemd: the daemon's service, and the timer by which sessions are remembered."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sesamectl.service.network import find_families
from sesamectl.service.unit import Spec, load_template
from sesamectl.service.units import FAILED, Units

SERVICE, SOCKET = "sesamed.service", "sesamed.socket"
ASKER, TIMER = "sesame-remember.service", "sesame-remember.timer"
PROPERTIES = ("ActiveState", "UnitFileState", "MainPID", "StatusText", "Result", "NRestarts", "DropInPaths")
BEGAN = "ExecMainStartTimestamp"
TIMES = ("NextElapseUSecRealtime", "LastTriggerUSec")
START_ANEW = """
case $(systemctl --user show "$@" --property=NeedDaemonReload) in *yes*) systemctl --user daemon-reload ;; esac
systemctl --user reset-failed "$@"
exec systemctl --user start "$@"
"""


class Systemd(Units):
    """The manager of `systemctl --user`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ, (SOCKET, SERVICE))

    def render(self, spec: Spec, *, socket: bool) -> dict[str, str]:
        """The templates, filled in."""
        families = find_families({**self._environ, **spec.environment})
        found = {self.unit_path(): self._fill(SERVICE, spec).replace("@FAMILIES@", families)}
        if socket:
            text = load_template("systemd", SOCKET).replace("@SOCKET@", spec.socket.replace("%", "%%"))
            found[self._path(SOCKET)] = text
        return found

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

    def enable(self, files: Mapping[str, str]) -> list[str]:
        """The socket first: a service that is already running would have bound its own."""
        names = [SOCKET, SERVICE] if self._path(SOCKET) in files else [SERVICE]
        self._run("reset-failed", *names, may_fail=True)
        for name in names:
            self._run("enable", "--now", name)
        return [f"enabled and started {name}" for name in reversed(names)]

    def holds_socket(self) -> bool:
        """With a socket unit."""
        return self._is_ours(self._path(SOCKET))

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


class SystemdTimer(Units):
    """The timer, and what it runs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ, (TIMER, ASKER))

    def render(self, spec: Spec, hours: int) -> dict[str, str]:
        """The templates, filled in."""
        calendar = {1: "*-*-* *:00:00", 24: "*-*-* 12:00:00"}.get(hours, f"*-*-* 00/{hours}:00:00")
        timer = load_template("systemd", TIMER).replace("@CALENDAR@", calendar)
        return {self._path(TIMER): timer, self.unit_path(): self._fill(ASKER, spec)}

    def enable(self) -> list[str]:
        """From now on, and from each login on."""
        self._run("reset-failed", *self.names, may_fail=True)
        self._run("enable", "--now", TIMER)
        return [f"enabled and started {TIMER}"]

    def read_state(self) -> dict[str, Any]:
        """What `systemctl show` says about the timer, and about its last run."""
        shown, ran = self._show(TIMER, "ActiveState", *TIMES), self._show(ASKER, "ActiveState", "Result", BEGAN)
        following, triggered = (_read_time(shown.get(name, "")) for name in TIMES)
        began = _read_time(ran.get(BEGAN, ""))  # also by hand; since the manager started
        return {
            "active": shown.get("ActiveState") == "active",
            "next": following,
            "last": began or triggered,
            "running": ran.get("ActiveState") == "activating",
            "result": ran.get("Result", "") if began else "",
        }


def _read_time(text: str) -> str | None:
    """A time as systemctl prints it."""
    with suppress(ValueError):
        moment = datetime.strptime(text, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return None
