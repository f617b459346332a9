"""`list`: sessions, newest activity first, or what changed."""

import time
from functools import partial
from typing import Any

from sesamectl.call import call_retrying, choose_scope, choose_tools, show_sessions, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import UsageError
from sesamectl.flags import CHANGES, FILTERS, PAGE, PERSON, SIMILAR, Arguments
from sesamectl.output import show
from sesamectl.pages import go_on, show_each
from sesamectl.render.sessions import changes, lines
from sesamectl.resolve import name_excluded
from sesamectl.zone import say_zone


def run(arguments: Arguments) -> None:
    """List and print."""
    params = say_zone(arguments.collect((*PAGE, SIMILAR, *FILTERS, PERSON, *CHANGES)) | choose_scope(arguments))

    begun_s = time.monotonic()

    def ask(client: Client, params: dict[str, Any]) -> dict[str, Any]:
        wait_if_started(client, begun_s)
        named = name_excluded(client, params) if arguments.has("exclude") else params
        return client.call("list_sessions", **choose_tools(client, named))

    if arguments.has("jsonl"):
        if arguments.has("since"):
            raise UsageError("--jsonl has no place for what --changed-since says was removed; use --json", "list")
        show_each(arguments, ask, params, "sessions")
        return

    def ask_all(client: Client) -> dict[str, Any]:
        answer = ask(client, params)
        return answer if arguments.has("since") else go_on(partial(ask, client), answer, params, "sessions")

    answer = call_retrying(arguments, ask_all)
    if arguments.has("since"):
        show(answer, changes, arguments, may_page=True)
    else:
        show_sessions(answer, lines, arguments, found=bool(answer.get("total")))
