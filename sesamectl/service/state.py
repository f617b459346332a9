"""The state of the service: what is installed, and what the manager knows about it."""

import os
from typing import Any

from sesamectl.service.manager import Manager, Timer, read_spec
from sesamectl.service.unit import build_spec, read_text, with_path


def read_state(manager: Manager, socket: str, answering_pid: int | None) -> dict[str, Any]:
    """As `service status --json` prints it. `answering_pid` is that of the daemon that answers at the socket."""
    reason, spec = manager.unavailable(), read_spec(manager)
    found: dict[str, Any] = {"manager": manager.name, "missing": reason or None, "unit": manager.unit_path()}
    found |= {"foreign": manager.find_foreign() or None, "installed": spec is not None}
    found |= {"ours": spec is not None and spec.socket == socket, "serves": None if spec is None else spec.socket}
    if spec is not None and not reason:
        found |= manager.read_state()
        expected = manager.render(build_spec(os.environ), socket=bool(found["socket"]))
        found["current"] = all(read_text(path) == wanted for path, wanted in expected.items())
    return {**found, "answers": answering_pid}


def read_timer(timer: Timer, hours: int | None) -> dict[str, Any] | None:
    """The same of the timer, which should run every so many hours; None when it is not installed."""
    spec = read_spec(timer)
    if spec is None:
        return None
    path = spec.environment.get("PATH", "")
    found: dict[str, Any] = {"unit": timer.unit_path(), "python": spec.python, "path": path, "current": None}
    if not timer.unavailable():
        found |= timer.read_state()
    if hours is not None:
        expected = timer.render(with_path(build_spec(os.environ), path), hours)
        found["current"] = all(read_text(path) == wanted for path, wanted in expected.items())
    return found
