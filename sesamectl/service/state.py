"""The state of the service: what is installed, and what the manager knows about it."""

import os
from typing import Any

from sesamectl.service.manager import Manager, read_spec
from sesamectl.service.unit import build_spec, read_text


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
