"""`forget`: takes sessions out of the index for good. Transcripts stay as they are."""

from __future__ import annotations

import sys

from sesamectl.asking import asked
from sesamectl.errors import RefusedError, UsageError
from sesamectl.flags import FORGET
from sesamectl.meant import meant
from sesamectl.output import show
from sesamectl.render import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.client import Client
    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

FORGET_TIMEOUT_S = 600.0  # the index is built anew without them


def run(arguments: Arguments) -> None:
    """Count, ask, forget."""
    given = arguments.given(FORGET)
    if len(given) + len(arguments.words) != 1:
        raise UsageError("one of these is to be forgotten: a SESSION, --source NAME, --cwd DIR", "forget")

    def question(client: Client) -> dict[str, Any]:
        what = given or {"sessionId": meant(client, arguments.words[0])["sessionId"]}
        found = client.call("forget", dryRun=True, **what)
        if arguments.has("dry-run"):
            return {**found, "dryRun": True}
        if not (arguments.has("yes") or _agreed(found)):
            raise RefusedError("nothing was forgotten")
        return {**client.call("forget", **what), "dryRun": False}

    show(asked(arguments, question, FORGET_TIMEOUT_S), _lines, arguments)


def _agreed(found: Mapping[str, Any]) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError("to forget cannot be undone: say --yes, or --dry-run to see what it would be")
    print(f"Forget {number(found['sessions'], 'session')} for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    what = f"{number(answer['sessions'], 'session')} with {number(answer['chunks'], 'indexed text')}"
    yield f"{what} would be forgotten" if answer["dryRun"] else f"{what} forgotten; the session files are as they were"
