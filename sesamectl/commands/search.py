"""`search`. The hot path: one question, one answer; anything more happens only when needed."""

from __future__ import annotations

import os
import time

from sesamectl.call import call_retrying, choose_scope, choose_tools, show_sessions, wait_if_started
from sesamectl.flags import SEARCH
from sesamectl.render.search import lines
from sesamectl.zone import say_zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.client import Client
    from sesamectl.flags import Arguments


def run(arguments: Arguments) -> None:
    """Search and print."""
    params = _collect(arguments)
    method, render = "search", lines
    if arguments.has("context"):
        from sesamectl.render.windows import lines as render

        method = "search_sessions"
        params["contextBefore"] = params["contextAfter"] = arguments.values["context"]
    elif arguments.has("scores"):
        from sesamectl.render.scored import lines as render

    begun_s = time.monotonic()

    def ask(client: Client, params: dict[str, Any]) -> dict[str, Any]:
        wait_if_started(client, begun_s)
        if arguments.has("exclude"):
            from sesamectl.resolve import name_excluded

            params = name_excluded(client, params)
        asked = choose_tools(client, params)
        answer = client.call(method, **asked)
        if answer["resultCount"] and not answer.get("pending", {}).get("files"):
            return answer
        from sesamectl.waiting import ask_again

        return ask_again(client, method, asked, answer, begun_s)

    field = "hits" if arguments.has("context") else "results"
    if arguments.has("jsonl"):
        from sesamectl.pages import show_each

        show_each(arguments, ask, params, field)
        return

    def ask_all(client: Client) -> dict[str, Any]:
        answer = ask(client, params)
        if "limit" in params and answer.get("nextOffset") is not None:
            from sesamectl.pages import go_on

            return go_on(lambda page: ask(client, page), answer, params, field)
        return answer

    answer = call_retrying(arguments, ask_all)
    show_sessions(answer, render, arguments, found=bool(answer.get("total") or answer.get("resultCount")))


def _collect(arguments: Arguments) -> dict[str, Any]:
    params = {"query": " ".join(arguments.words), **arguments.collect(SEARCH)}
    if params["query"] and not arguments.has("plain"):
        params["timeWords"] = True
    if own := os.environ.get("PI_SESSION_ID"):  # the session that searches contains the words it searches for
        params["exclude"] = [*params.get("exclude", ()), own]
    return say_zone(params | choose_scope(arguments))
