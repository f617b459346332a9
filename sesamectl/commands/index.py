"""`index`: checks every session file now."""

from sesamectl.call import call
from sesamectl.flags import INDEX, Arguments
from sesamectl.output import show
from sesamectl.render.index import Bar, lines

SILENCE_S = 60.0  # the daemon reports progress twice a second, so a longer silence means that it hangs


def run(arguments: Arguments) -> None:
    """Index, with a progress bar on a terminal."""
    with Bar() as bar:
        answer = call(
            arguments,
            lambda client: client.call("index", progress=True, **arguments.collect(INDEX)),
            SILENCE_S,
            progress=bar.show,
        )
    show(answer, lines, arguments)
