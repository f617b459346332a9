"""`resolve`: the id of the session that is meant, for people and for `$(...)`."""

from __future__ import annotations

from sesamectl.asking import ask
from sesamectl.flags import FROM
from sesamectl.meant import meant
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.sessions import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal


def run(arguments: Arguments) -> None:
    """Ask and show."""
    place = arguments.given(FROM)
    show(ask(arguments, lambda client: meant(client, arguments.words[0], **place)), _lines, arguments)


def _lines(session: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """On a terminal what it is; in a script the id alone."""
    if terminal.width:
        yield from summary(session, terminal)
    else:
        yield clean(session["sessionId"])
