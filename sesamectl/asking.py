"""How commands ask: a connection that starts the daemon if it may, and what to make of a refusal."""

from __future__ import annotations

import os

from sesamectl import __version__
from sesamectl.client import Client
from sesamectl.errors import ClientError, ClosedError, NotSesameError, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sesamectl.flags import Arguments

ANSWER_TIMEOUT_S = 15.0  # a query's own deadline is 10 s: the daemon is the first to say so
HELLO_TIMEOUT_S = 5.0
CONTRADICTIONS = (-32600, -32601, -32602)  # said of our request, these mean that we are of different versions


def ask(arguments: Arguments, question: Callable[[Client], dict[str, Any]]) -> dict[str, Any]:
    """The answer to a question that changes nothing; asked once more when the daemon ends in the middle of it."""
    try:
        return asked(arguments, question)
    except ClosedError:
        return asked(arguments, question)


def asked(
    arguments: Arguments, question: Callable[[Client], dict[str, Any]], timeout: float | None = None, **more: Any
) -> dict[str, Any]:
    """The answer to a question; the daemon is started if nobody said not to."""
    may_start = _may_start(arguments)
    client = Client(timeout=timeout or ANSWER_TIMEOUT_S, start=may_start, **more)
    if may_start and _is_of_another_version(client.path):
        from sesamectl.upgrade import meet

        meet(client.path)
    return answered(client, question)


def answered(client: Client, question: Callable[[Client], dict[str, Any]]) -> dict[str, Any]:
    """The answer to a question; an error that two versions may have with each other says so."""
    try:
        with client:
            return question(client)
    except RpcError as error:
        if error.code in CONTRADICTIONS:
            raise explained(client.path, error.message) or error from None
        raise
    except NotSesameError as error:
        raise explained(client.path) or error from None


def explained(path: str, refused: str = "") -> Exception | None:
    """What a `hello` says about it."""
    from sesamectl.version import explain

    return explain(path, HELLO_TIMEOUT_S, refused)


def greeting(path: str) -> dict[str, Any] | None:
    """The `hello` of who answers; None when nobody does, or nobody that we know."""
    try:
        with Client(path, HELLO_TIMEOUT_S) as client:
            return client.call("hello", client="sesamectl")
    except (ClientError, RpcError):
        return None


def _may_start(arguments: Arguments) -> bool:
    return not arguments.has("no-start") and os.environ.get("SESAME_NO_START", "") in {"", "0"}


def _is_of_another_version(path: str) -> bool:
    """Whether the daemon's lock names a version that is not ours. It costs 4 µs; a `hello` before each search is a round trip."""
    try:
        with open(f"{path}.lock", "rb", buffering=0) as lock:
            named = lock.read(64).split()
    except OSError:
        return False
    return len(named) == 2 and named[1] != __version__.encode()
