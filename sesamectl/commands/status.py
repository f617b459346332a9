"""`status`: how the daemon is. It never starts one: whoever asks wants to know."""

from __future__ import annotations

from sesamectl.asking import ANSWER_TIMEOUT_S, answered
from sesamectl.client import Client
from sesamectl.output import show
from sesamectl.render.status import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesamectl.flags import Arguments


def run(arguments: Arguments) -> None:
    """Ask and show."""
    show(answered(Client(timeout=ANSWER_TIMEOUT_S), lambda client: client.call("status")), lines, arguments)
