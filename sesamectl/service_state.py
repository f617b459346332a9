"""How the service is: what is installed, what the manager knows of it, and who answers."""

from __future__ import annotations

import os

from sesamectl import service
from sesamectl.asking import greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.service import Manager


def state(manager: Manager, socket: str) -> dict[str, Any]:
    """What is installed, what the manager knows of it, and who answers."""
    missing, text = manager.missing(), service.read(manager.unit())
    found: dict[str, Any] = {"manager": manager.name, "missing": missing or None, "unit": manager.unit()}
    found |= {"installed": text is not None, "ours": text is not None and manager.starts(text, socket)}
    if text is not None and not missing:
        found |= manager.state()
        expected = manager.files(service.wanted(os.environ), socket=bool(found["socket"]))
        found["current"] = all(service.read(path) == wanted for path, wanted in expected.items())
    return {**found, "answers": answers(socket)}


def answers(socket: str) -> int | None:
    """The pid of who answers."""
    hello = greeting(socket)
    if hello is None:
        return None
    pid = hello.get("pid")
    return pid if isinstance(pid, int) else 0
