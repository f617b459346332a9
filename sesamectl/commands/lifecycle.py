"""`start`, `stop` and `restart`. Each reports the state it leaves, even when there was nothing to do."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.client import ANSWER_S, Client
from sesamectl.errors import StartError
from sesamectl.flags import Arguments
from sesamectl.holder import find_holder
from sesamectl.launch import require_next_startable
from sesamectl.lifecycle import stop_daemon
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.terminal import Terminal
from sesamectl.service.manager import find_socket_holder


def start(arguments: Arguments) -> None:
    """Start the daemon unless it is running."""
    client = Client(timeout=ANSWER_S, start=True)
    is_woken = bool(find_socket_holder(client.path)) and find_holder(f"{client.path}.lock") is None
    with client:
        hello = client.call("hello", client="sesamectl")
    answer = {"running": True, "started": client.started or is_woken, **_identify(hello), "socket": client.path}
    show(answer, _start_lines, arguments)


def stop(arguments: Arguments) -> None:
    """Stop the daemon if it is running."""
    hello = stop_daemon()
    answer = {"running": False, "stopped": hello is not None, **({} if hello is None else _identify(hello))}
    show(answer | {"socketHeldBy": find_socket_holder(Client().path) or None}, _stop_lines, arguments)


def restart(arguments: Arguments) -> None:
    """Stop the daemon if it is running, then start it. One that could not start again is not stopped."""
    try:
        require_next_startable(os.environ)
    except StartError as error:
        raise StartError(f"{error}; the daemon was not stopped") from None
    stop_daemon()
    start(arguments)


def _identify(hello: Mapping[str, Any]) -> dict[str, Any]:
    return {"pid": hello.get("pid"), "version": hello.get("version")}


def _start_lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    how = "started" if answer["started"] else "is already running"
    yield f"sesamed {clean(answer['version'])} {how}: pid {clean(answer['pid'])}, {clean(answer['socket'])}"


def _stop_lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield "sesamed stopped" if answer["stopped"] else "sesamed was not running"
    if name := answer["socketHeldBy"]:
        yield f"{name} holds its socket, and starts it again for the next client; `sesamectl service uninstall` ends that"
