"""`status`: the daemon's own report. Never starts a daemon, which would hide that none was running."""

from sesamectl.call import ask
from sesamectl.client import ANSWER_S, Client
from sesamectl.flags import Arguments
from sesamectl.output import show
from sesamectl.render.status import lines


def run(arguments: Arguments) -> None:
    """Ask and print."""
    show(ask(Client(timeout=ANSWER_S), lambda client: client.call("status")), lines, arguments)
