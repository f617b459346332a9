"""`show`: a session, read page by page."""

from __future__ import annotations

from functools import partial

from sesamectl.asking import ask
from sesamectl.errors import RpcError
from sesamectl.flags import SHOW
from sesamectl.output import show
from sesamectl.render.sessions import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.client import Client
    from sesamectl.flags import Arguments

NO_ID = (1, 2)  # not found, ambiguous


def run(arguments: Arguments) -> None:
    """Ask for the session and a page of it; `--json` has both."""
    session = arguments.words[0]

    def question(client: Client) -> dict[str, Any]:
        if client.started:
            from sesamectl.waiting import until_read

            until_read(client)
        messages = _page(client, session, arguments.given(SHOW))
        meta = client.call("get_session_meta", sessionId=messages.get("sessionId", session))
        return {"session": meta, "messages": messages}

    show(ask(arguments, question), partial(reading, full=arguments.has("all")), arguments)


def _page(client: Client, session: str, page: dict[str, Any]) -> dict[str, Any]:
    """A page of the session with this id, or with the beginning of it; else of the one that is called so."""
    try:
        return client.call("list_messages", sessionId=session, **page)
    except RpcError as error:
        if error.code not in NO_ID:
            raise
    from sesamectl.meant import meant

    return client.call("list_messages", sessionId=meant(client, session)["sessionId"], **page)
