"""The messages of a session, page by page, in either direction."""

from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.client import Client

PAGE = 100

Message = Mapping[str, Any]
Place = Mapping[str, Any]  # what `list_messages` is asked for: a session, and which of its branches


def count(client: Client, place: Place) -> int:
    """How many there are."""
    return int(client.call("list_messages", **place, limit=0)["total"])


def read_forward(client: Client, place: Place, begin: int, end: int) -> Iterator[tuple[int, Message]]:
    """Messages with their places; an answer may have fewer than were asked for."""
    while begin < end:
        params = {**place, "offset": begin, "limit": min(PAGE, end - begin)}
        messages = client.call("list_messages", **params)["messages"]
        yield from enumerate(messages, begin)
        if not messages:  # the session has changed meanwhile
            return
        begin += len(messages)


def read_backward(client: Client, place: Place, total: int) -> Iterator[tuple[int, Message]]:
    """The newest first."""
    for end in range(total, 0, -PAGE):
        yield from reversed(list(read_forward(client, place, max(0, end - PAGE), end)))
