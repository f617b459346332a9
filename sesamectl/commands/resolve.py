"""`resolve`: the id of the session that a name or reference stands for, for people and for `$(...)`."""

from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.call import call_retrying, wait_if_started
from sesamectl.client import Client
from sesamectl.flags import FROM, Arguments
from sesamectl.output import show
from sesamectl.render import clean, heading
from sesamectl.render.terminal import Terminal
from sesamectl.resolve import resolve


def run(arguments: Arguments) -> None:
    """Resolve and print."""
    project = arguments.collect(FROM)

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client)
        return resolve(client, arguments.words[0], **project)

    show(call_retrying(arguments, question), _lines, arguments)


def _lines(session: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """Its heading on a terminal, the id alone in a script."""
    if terminal.width:
        yield from heading.lines(session, terminal)
    else:
        yield clean(session["sessionId"])
