"""`sesamectl`: a command line in, one call, its answer as text. The only place that knows exit codes.

0 done, 2 usage, 3 the daemon cannot be reached, 4 refused or failed, 130 interrupted. What goes wrong is one line on
stderr: what, where, what to do.
"""

from __future__ import annotations

import json
import os
import sys
import time

from sesamectl import flags, render
from sesamectl.client import Client
from sesamectl.errors import ClientError, NotRunningError, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

ANSWER_TIMEOUT_S = 10.0
CONNECT_AGAIN_S = 0.05
INDEX_TIMEOUT_S = 60.0  # an index run says once a second how far it is


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    words = [_decodable(word) for word in (sys.argv[1:] if argv is None else argv)]
    try:
        return _guarded(words)
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 130


def _guarded(words: list[str]) -> int:
    try:
        name, arguments = flags.parse(words)
        COMMANDS[name](arguments)
        sys.stdout.flush()
    except ClientError as error:
        return _fail(str(error), 3)
    except RpcError as error:
        return _fail(error.message, 4)
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        return _fail(f"cannot read or write: {error}", 4)
    return 0


def _drop_output() -> None:
    """What could not be written is still in the buffer; the interpreter's own flush at the end must not complain again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # it is no file at all
        return


def _fail(message: str, code: int) -> int:
    print(f"sesamectl: {render.clean(message)}", file=sys.stderr)
    return code


def _search(arguments: Namespace) -> None:
    with _connected(arguments.wait) as client:
        answer = client.call("search", query=" ".join(arguments.words), **flags.given(arguments, flags.SEARCH))
    _show(answer, render.search, arguments.json)


def _connected(wait_s: int) -> Client:
    """A connection; with time to wait, once the daemon is there and has read what is on disk."""
    if not wait_s:
        return Client()
    deadline = time.monotonic() + wait_s
    while True:
        left_s = max(0.0, deadline - time.monotonic())
        try:
            with Client(timeout=left_s + ANSWER_TIMEOUT_S) as client:
                client.call("sync", timeoutMs=int(left_s * 1000))
            return Client()
        except NotRunningError:
            if not left_s:
                raise
            time.sleep(CONNECT_AGAIN_S)


def _status(arguments: Namespace) -> None:
    with Client() as client:
        answer = client.call("status")
    _show(answer, render.status, arguments.json)


def _index(arguments: Namespace) -> None:
    show = _show_progress if sys.stderr.isatty() else None
    with Client(timeout=INDEX_TIMEOUT_S, progress=show) as client:
        answer = client.call("index", progress=True, **flags.given(arguments, flags.INDEX))
    if show:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    _show(answer, render.index, arguments.json)


def _show_progress(state: Mapping[str, Any]) -> None:
    print(f"\r{render.progress(state)}\x1b[K", end="", file=sys.stderr, flush=True)


def _stop(_: Namespace) -> None:
    with Client() as client:
        client.call("shutdown")
        client.wait_closed()
    print("sesamed stopped")


COMMANDS: Mapping[str, Callable[[Namespace], None]] = {
    "search": _search,
    "status": _status,
    "index": _index,
    "stop": _stop,
}


def _show(answer: dict[str, Any], lines: Callable[[dict[str, Any]], Iterable[str]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
        return
    try:
        text = "\n".join(lines(answer))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise RpcError(0, "this answer cannot be shown; are sesamed and sesamectl of one version? Try --json") from None
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def _decodable(word: str) -> str:
    """The word with U+FFFD for bytes that are no UTF-8: JSON has no way to say them."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
