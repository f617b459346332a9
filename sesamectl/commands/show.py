"""`show`: a session, read page by page."""

from __future__ import annotations

from functools import partial

from sesamectl.asking import ask
from sesamectl.flags import SHOW
from sesamectl.output import show
from sesamectl.render.sessions import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.client import Client
    from sesamectl.flags import Arguments


def run(arguments: Arguments) -> None:
    """Ask for the session and a page of it; `--json` has both."""
    session = arguments.words[0]

    def question(client: Client) -> dict[str, Any]:
        if client.started:
            from sesamectl.waiting import until_read

            until_read(client)
        messages = client.call("list_messages", sessionId=session, **arguments.given(SHOW))
        meta = client.call("get_session_meta", sessionId=messages.get("sessionId", session))
        return {"session": meta, "messages": messages}

    show(ask(arguments, question), partial(reading, full=arguments.has("all")), arguments)
