"""`search`. The hot path: one question, one answer; everything else happens only when there is a reason."""

from __future__ import annotations

import os

from sesamectl.asking import ask
from sesamectl.flags import SEARCH
from sesamectl.output import show
from sesamectl.render.search import lines, nothing_at_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.client import Client
    from sesamectl.flags import Arguments


def run(arguments: Arguments) -> None:
    """Ask and show."""
    params = {"query": " ".join(arguments.words), **arguments.given(SEARCH)}
    if asking := os.environ.get("PI_SESSION_ID"):  # the session that asks has the words of the question in it
        params["exclude"] = [*params.get("exclude", ()), asking]

    def question(client: Client) -> dict[str, Any]:
        if client.started:
            from sesamectl.waiting import until_read

            until_read(client)
        answer = client.call("search", **params)
        if answer.get("resultCount") and not answer.get("pending", {}).get("files"):
            return answer
        from sesamectl.waiting import again

        return again(client, params, answer)

    answer = ask(arguments, question)
    if not answer.get("resultCount") and not arguments.has("json"):
        status = ask(arguments, lambda client: client.call("status"))
        if status.get("counts", {}).get("sessions") == 0:
            show(status, nothing_at_all, arguments)
            return
    show(answer, lines, arguments)
