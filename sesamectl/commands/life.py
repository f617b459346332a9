"""`start`, `stop` and `restart`. Each says what is the case after it, also when there was nothing to do."""

from __future__ import annotations

import os
import time

from sesamectl.asking import ANSWER_TIMEOUT_S
from sesamectl.client import Client
from sesamectl.errors import DeadlineError, NotRunningError
from sesamectl.output import show
from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

ENDING_S = 15.0  # what runs may finish first
LOOK_S = 0.01


def start(arguments: Arguments) -> None:
    """Start the daemon if it does not run."""
    show(_started(), _running, arguments)


def stop(arguments: Arguments) -> None:
    """Stop the daemon if it runs."""
    show(stopped(), _ended, arguments)


def restart(arguments: Arguments) -> None:
    """Stop the daemon if it runs, and start it."""
    stopped()
    show(_started(), _running, arguments)


def _started() -> dict[str, Any]:
    with Client(timeout=ANSWER_TIMEOUT_S, start=True) as client:
        hello = client.call("hello", client="sesamectl")
        return {"running": True, "started": client.started, **_who(hello), "socket": client.path}


def stopped(path: str | None = None) -> dict[str, Any]:
    """Stop the daemon, and wait until its process is gone."""
    try:
        with Client(path, ANSWER_TIMEOUT_S) as client:
            hello = client.call("hello", client="sesamectl")
            client.call("shutdown")
            client.wait_closed()
    except NotRunningError:
        return {"running": False, "stopped": False}
    _until_gone(hello.get("pid"))
    return {"running": False, "stopped": True, **_who(hello)}


def _until_gone(pid: object) -> None:
    """Wait for the end of the process: until then it holds the index, and nobody else can start."""
    deadline = time.monotonic() + ENDING_S
    while isinstance(pid, int) and _lives(pid):
        if time.monotonic() >= deadline:
            raise DeadlineError(
                f"sesamed (pid {pid}) does not come to its end within {ENDING_S:g} s; `kill -9 {pid}` ends it"
            )
        time.sleep(LOOK_S)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _who(hello: Mapping[str, Any]) -> dict[str, Any]:
    return {"pid": hello.get("pid"), "version": hello.get("version")}


def _running(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    how = "started" if answer["started"] else "runs already"
    yield f"sesamed {clean(answer['version'])} {how}: pid {clean(answer['pid'])}, {clean(answer['socket'])}"


def _ended(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield "sesamed stopped" if answer["stopped"] else "sesamed was not running"
