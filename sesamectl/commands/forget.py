"""`forget`: removes sessions from the index for good. Transcripts are not touched."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.call import call, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import RefusedError, UsageError
from sesamectl.flags import FORGET, Arguments
from sesamectl.output import show
from sesamectl.render import number
from sesamectl.render.terminal import Terminal
from sesamectl.resolve import identify, resolve

FORGET_TIMEOUT_S = 600.0  # the index is rebuilt without them


def run(arguments: Arguments) -> None:
    """Count, confirm, forget."""
    given = arguments.collect(FORGET)
    if len(given) + len(arguments.words) != 1:
        raise UsageError("give exactly one of SESSION, --source SOURCE or --cwd DIR", "forget")

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client)
        what = given or {"sessionId": identify(resolve(client, arguments.words[0], place=False))}
        found = client.call("forget", dryRun=True, **what)
        if arguments.has("dry-run"):
            return {**found, "dryRun": True}
        if not (arguments.has("yes") or _confirm(found)):
            raise RefusedError("nothing forgotten")
        return {**client.call("forget", **what), "dryRun": False}

    show(call(arguments, question, FORGET_TIMEOUT_S), _lines, arguments)


def _confirm(found: Mapping[str, Any]) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError("this cannot be undone: pass --yes, or --dry-run to see what it would remove")
    print(f"Forget {number(found['sessions'], 'session')} for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    what = f"{number(answer['sessions'], 'session')} with {number(answer['chunks'], 'indexed text')}"
    yield f"{what} would be forgotten" if answer["dryRun"] else f"{what} forgotten; session files are unchanged"
