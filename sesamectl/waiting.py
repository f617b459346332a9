"""What a search does when the first answer may be incomplete: wait for the first index, check the disk, ask again."""

import time
from collections.abc import Mapping
from typing import Any

from sesamectl.client import Client
from sesamectl.render.index import Bar

FIRST_INDEX_S = 10.0
MIN_POLL_S, MAX_POLL_S = 0.01, 0.3  # each poll costs the daemon a millisecond


def wait_until_indexed(client: Client) -> None:
    """Wait until what is on disk is searchable, up to ten seconds; with a progress bar on a terminal."""
    deadline, poll_s = time.monotonic() + FIRST_INDEX_S, MIN_POLL_S
    with Bar() as bar:
        while _is_reading(status := client.call("status")):
            bar.show(status.get("indexing") or {})
            if time.monotonic() >= deadline:
                return
            time.sleep(poll_s)
            poll_s = min(2 * poll_s, MAX_POLL_S)


def ask_again(client: Client, params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer once the backlog is indexed. An answer without hits is believed only after the disk was checked."""
    was_reading = _is_reading(client.call("status"))
    if was_reading:
        wait_until_indexed(client)
    if answer.get("resultCount"):
        return client.call("search", **params) if was_reading else answer
    return client.call("search", **{**params, "fresh": True})


def _is_reading(status: Mapping[str, Any]) -> bool:
    """Whether files wait to be read, or the first sweep is not over."""
    return bool(status.get("lastSweepAt") is None or status.get("pending", {}).get("files"))
