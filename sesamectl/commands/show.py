"""`show`: reads a session, page by page."""

import sys
import time
from functools import partial
from typing import Any

from sesamectl.call import call_retrying, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import RefusedError, RpcError
from sesamectl.flags import SHOW, Arguments
from sesamectl.output import show
from sesamectl.render.sessions import page_lines
from sesamectl.resolve import resolve

NOT_AN_ID = (1, 2)  # not found, ambiguous


def run(arguments: Arguments) -> None:
    """Ask for the session and a page of it; `--json` has both."""
    session, page = arguments.words[0], arguments.collect(SHOW)
    if arguments.has("reveal"):
        _confirm()
        page["reveal"] = True

    begun_s = time.monotonic()

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client, begun_s)
        messages = _page(client, session, page)
        meta = client.call("get_session_meta", sessionId=messages.get("sessionId", session))
        return {"session": meta, "messages": messages}

    show(call_retrying(arguments, question), partial(page_lines, full=arguments.has("all")), arguments)


def _confirm() -> None:
    """A person has to say so: what a program prints may be logged, or read by a model."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RefusedError("--reveal prints secrets, so it only works in a terminal; leave it out, or run it there")
    print("Print secrets as they stand in the transcript? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise RefusedError("nothing shown; without --reveal secrets are masked")


def _page(client: Client, session: str, page: dict[str, Any]) -> dict[str, Any]:
    """A page of the session with this id or beginning of one; else of the session of this name."""
    try:
        return client.call("list_messages", sessionId=session, **page)
    except RpcError as error:
        if error.code not in NOT_AN_ID:
            raise
    return client.call("list_messages", sessionId=resolve(client, session)["sessionId"], **page)
