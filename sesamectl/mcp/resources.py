"""Sessions as resources: the newest are listed, and each is read as the tools read it."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from sesamectl.client import Client
from sesamectl.mcp import present
from sesamectl.mcp.arguments import GivenError
from sesamectl.mcp.quoting import cut, line
from sesamectl.mcp.request import Request
from sesamectl.mcp.tools import find_asker_of, read
from sesamectl.render.heading import NO_NAME

SCHEME = "sesame://session/"
URI = re.compile(rf"{SCHEME}([^/?#]+)(?:/(\d{{1,9}}))?")
TEXT = "text/plain"
LISTED = 50
TEMPLATES = (
    {
        "uriTemplate": f"{SCHEME}{{session}}",
        "name": "session",
        "title": "A past session",
        "description": "How it began: its id, the beginning of it, or its name.",
        "mimeType": TEXT,
    },
    {
        "uriTemplate": f"{SCHEME}{{session}}/{{message}}",
        "name": "session-from",
        "title": "A past session, from a message on",
        "description": "Messages are counted from 0.",
        "mimeType": TEXT,
    },
)


def list_resources(request: Request) -> dict[str, Any]:
    """A page of `resources/list`; the cursor is how many came before."""
    cursor = request.params.get("cursor") or "0"
    if not (isinstance(cursor, str) and cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise GivenError("no such cursor")

    def question(client: Client) -> dict[str, Any]:
        exclude = find_asker_of(client, request)
        return client.call("list_sessions", limit=LISTED, offset=int(cursor), exclude=exclude)

    listed = request.ask(question)
    following = {} if listed["nextOffset"] is None else {"nextCursor": str(listed["nextOffset"])}
    return {"resources": [_describe(session) for session in listed["sessions"]], **following}


def _describe(session: Mapping[str, Any]) -> dict[str, Any]:
    name = cut(line(session["name"] or "") or NO_NAME, present.NAME_CHARACTERS)
    return {
        "uri": SCHEME + quote(session["sessionId"], safe=""),
        "name": name,
        "title": name,
        "description": present.about(session),
        "mimeType": TEXT,
        "annotations": {"lastModified": session["modified"]},
    }


def read_resource(request: Request) -> dict[str, Any]:
    """`resources/read`."""
    uri = request.params.get("uri")
    match = URI.fullmatch(uri) if isinstance(uri, str) else None
    if match is None:
        raise GivenError(f"a session is {SCHEME}ID, or {SCHEME}ID/N from message N on")
    told = read(request, {"session": unquote(match[1]), "offset": int(match[2] or 0), "limit": LISTED})
    return {"contents": [{"uri": uri, "mimeType": TEXT, "text": told["text"]}]}
