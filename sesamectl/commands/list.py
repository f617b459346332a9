"""`list`: sessions, newest activity first."""

from typing import Any

from sesamectl.call import call_retrying, choose_tools, show_sessions, wait_if_started
from sesamectl.client import Client
from sesamectl.flags import FILTERS, PAGE, SIMILAR, Arguments
from sesamectl.render.sessions import lines


def run(arguments: Arguments) -> None:
    """List and print."""
    params = arguments.collect((*PAGE, SIMILAR, *FILTERS))

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client)
        return client.call("list_sessions", **choose_tools(client, params))

    answer = call_retrying(arguments, question)
    show_sessions(answer, lines, arguments, found=bool(answer.get("total")))
