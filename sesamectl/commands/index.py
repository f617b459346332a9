"""`index`: look at every file now."""

from __future__ import annotations

from sesamectl.asking import asked
from sesamectl.flags import INDEX
from sesamectl.output import show
from sesamectl.render.index import Bar, lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesamectl.flags import Arguments


SILENCE_S = 60.0  # the daemon says twice a second how far it is: a run that goes on is told from one that hangs


def run(arguments: Arguments) -> None:
    """Ask, with a bar on a terminal."""
    with Bar() as bar:
        answer = asked(
            arguments,
            lambda client: client.call("index", progress=True, **arguments.given(INDEX)),
            SILENCE_S,
            progress=bar.show,
        )
    show(answer, lines, arguments)
