"""`list`: sessions, newest activity first, or what changed."""

import time
from typing import Any

from sesamectl.call import call_retrying, choose_tools, show_sessions, wait_if_started
from sesamectl.client import Client
from sesamectl.flags import CHANGES, FILTERS, PAGE, SIMILAR, Arguments
from sesamectl.output import show
from sesamectl.render.sessions import changes, lines


def run(arguments: Arguments) -> None:
    """List and print."""
    params = arguments.collect((*PAGE, SIMILAR, *FILTERS, *CHANGES))

    begun_s = time.monotonic()

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client, begun_s)
        return client.call("list_sessions", **choose_tools(client, params))

    answer = call_retrying(arguments, question)
    if arguments.has("since"):
        show(answer, changes, arguments)
    else:
        show_sessions(answer, lines, arguments, found=bool(answer.get("total")))
