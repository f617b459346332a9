"""How commands call the daemon: start it if allowed, ask, and explain a refusal."""

from __future__ import annotations

import os

from sesamectl import __version__
from sesamectl.client import ANSWER_S, Client
from sesamectl.errors import ClosedError, NotSesameError, RpcError, UsageError, VersionError
from sesamectl.output import show
from sesamectl.reading import MISREAD, Reading
from sesamectl.render.search import no_sessions, nothing_yet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.output import Lines

ONLY_HERE = {
    "path": ("--path", "which files a call touched"),
    "similarTo": ("--similar-to", "which sessions are shown as one"),
    "since": ("--changed-since", "what has changed in this index"),
}
CONTRADICTIONS = (-32600, -32601, -32602)  # in answer to our own requests these mean that the versions differ


def call_retrying(arguments: Arguments, question: Callable[[Client], dict[str, Any]]) -> dict[str, Any]:
    """The answer to a question that changes nothing; asked once more when the daemon goes away in the middle of it."""
    try:
        return call(arguments, question)
    except ClosedError:
        return call(arguments, question)


def call(
    arguments: Arguments, question: Callable[[Client], dict[str, Any]], timeout: float | None = None, **more: Any
) -> dict[str, Any]:
    """The answer to a question; starts the daemon unless that is forbidden."""
    may_start = _may_start(arguments)
    client = Client(timeout=timeout or ANSWER_S, start=may_start, **more)
    if may_start and _is_of_another_version(client.path):
        from sesamectl.upgrade import settle_versions

        settle_versions(client.path)
    return ask(client, question)


def ask(client: Client, question: Callable[[Client], dict[str, Any]]) -> dict[str, Any]:
    """The answer to a question. An error that comes of different versions says so. A daemon of another protocol is not asked: what it
    answers may look like one of ours, and mean something else.
    """
    if _is_of_another_version(client.path):
        from sesamectl.handshake import explain

        if isinstance(other := explain(client.path), VersionError):
            raise other
    try:
        with client:
            try:
                return question(client)
            except MISREAD as error:
                misread = error
    except (RpcError, NotSesameError) as error:
        if isinstance(error, RpcError) and error.code not in CONTRADICTIONS:
            raise
        from sesamectl.handshake import explain

        raise explain(client.path, error.message if isinstance(error, RpcError) else "") or error from None
    with Reading(client.path):  # our connection is closed by now: the daemon may have no place for another one
        raise misread


def choose_tools(client: Client, params: dict[str, Any]) -> dict[str, Any]:
    """The params of a question, with what `--tool` means: a family of tools, if it names one or a tool in one; otherwise a tool, and so
    does `=NAME`. The daemon knows the families.
    """
    if "tool" not in params:
        return params
    families = client.call("hello").get("toolFamilies", {})
    chosen = {name: value for name, value in params.items() if name != "tool"}
    for given in params["tool"]:
        if found := _find_families(given.lower(), families):
            chosen.setdefault("toolFamily", []).extend(found)
        else:
            chosen.setdefault("tool", []).append(given.removeprefix("="))
    return chosen


def _find_families(tool: str, families: dict[str, list[str]]) -> list[str]:
    if tool in families:
        return [tool]
    return [family for family, tools in families.items() if tool in map(str.lower, tools)]


def choose_scope(arguments: Arguments) -> dict[str, str]:
    """Where to look, as a parameter. What only this machine knows is refused beside `--hub`, in the words that were typed."""
    if not arguments.has("hub"):
        return {}
    for name, (flag, known) in ONLY_HERE.items():
        if arguments.has(name):
            raise UsageError(f"{flag}: a hub does not know {known}; leave out {flag}, or --hub")
    return {"scope": "both"}


def wait_if_started(client: Client, begun_s: float | None = None) -> None:
    """A daemon that we just started has read nothing yet: give it time to, from when the command began, or from now."""
    if client.started:
        from sesamectl.waiting import wait_until_indexed

        wait_until_indexed(client, begun_s)


def show_sessions(answer: dict[str, Any], lines: Lines, arguments: Arguments, *, found: bool) -> None:
    """Print an answer; where there is nothing to find on this machine, say where sessions were looked for instead."""
    if not found and not arguments.has("json") and not arguments.has("hub"):
        status = call_retrying(arguments, lambda client: client.call("status"))
        with Reading():
            is_empty = status["counts"]["sessions"] == 0 and not status["pending"]["files"]
        if is_empty:
            show(status, nothing_yet if status.get("lastSweepAt") is None else no_sessions, arguments)
            return
    show(answer, lines, arguments, may_page=True)


def _may_start(arguments: Arguments) -> bool:
    return not arguments.has("no-start") and os.environ.get("SESAME_NO_START", "") in {"", "0"}


def _is_of_another_version(path: str) -> bool:
    """Whether the daemon's lock names another version than ours. Reading it takes 4 µs; a `hello` is a round trip."""
    try:
        with open(f"{path}.lock", "rb", buffering=0) as lock:
            owner = lock.read(64).split()
    except OSError:
        return False
    return len(owner) == 2 and owner[1] != __version__.encode()
