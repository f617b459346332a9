"""`list`: sessions, newest activity first."""

from __future__ import annotations

from sesamectl.asking import ask
from sesamectl.flags import FILTERS, PAGE
from sesamectl.output import show
from sesamectl.render.search import nothing_at_all
from sesamectl.render.sessions import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.client import Client
    from sesamectl.flags import Arguments


def run(arguments: Arguments) -> None:
    """Ask and show."""
    params = arguments.given((*PAGE, *FILTERS))

    def question(client: Client) -> dict[str, Any]:
        if client.started:
            from sesamectl.waiting import until_read

            until_read(client)
        return client.call("list_sessions", **params)

    answer = ask(arguments, question)
    if not answer.get("total") and not arguments.has("json"):
        status = ask(arguments, lambda client: client.call("status"))
        if status.get("counts", {}).get("sessions") == 0:
            show(status, nothing_at_all, arguments)
            return
    show(answer, lines, arguments)
