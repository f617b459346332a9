"""What a search does when the first answer may not be the whole one: wait for the first index, look at the disk, ask again."""

from __future__ import annotations

import time

from sesamectl.render.index import Bar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sesamectl.client import Client

FIRST_INDEX_S = 10.0
LEAST_LOOK_S, MOST_LOOK_S = 0.01, 0.3  # between two looks at how far it is; each costs the daemon a millisecond


def until_read(client: Client) -> None:
    """Wait until what is on disk is searchable, up to ten seconds; a terminal sees how far it is."""
    deadline, look_s = time.monotonic() + FIRST_INDEX_S, LEAST_LOOK_S
    with Bar() as bar:
        while _is_reading(status := client.call("status")):
            bar.show(status.get("indexing") or {})
            if time.monotonic() >= deadline:
                return
            time.sleep(look_s)
            look_s = min(2 * look_s, MOST_LOOK_S)


def again(client: Client, params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer once the backlog is read; and an answer without hits only after a look at the disk."""
    was_reading = _is_reading(client.call("status"))
    if was_reading:
        until_read(client)
    if answer.get("resultCount"):
        return client.call("search", **params) if was_reading else answer
    return client.call("search", **{**params, "fresh": True})


def _is_reading(status: Mapping[str, Any]) -> bool:
    """Whether files wait to be read, or nobody has looked yet which there are."""
    return bool(status.get("lastSweepAt") is None or status.get("pending", {}).get("files"))
