"""What a search does when the first answer may be incomplete: wait for the first index, check the disk, ask again."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from sesamectl.client import Client
from sesamectl.render.index import Bar

FIRST_INDEX_S = 10.0  # from the command on, daemon and all: then it answers with what has been read
NOTICE_AFTER_S = 2.0
MIN_POLL_S, MAX_POLL_S = 0.01, 0.3  # each poll costs the daemon a millisecond


def wait_until_indexed(
    client: Client, begun_s: float | None = None, show: Callable[[Mapping[str, Any]], None] | None = None
) -> bool:
    """Wait until what is on disk is searchable, but no longer than ten seconds after the beginning; whether it is. Shows how far it is on
    a terminal, and says once that it waits where there is none; or tells `show`.
    """
    begun_s = time.monotonic() if begun_s is None else begun_s
    poll_s, notice_at = MIN_POLL_S, begun_s + NOTICE_AFTER_S
    with Bar() as bar:
        while _is_reading(status := client.call("status")):
            (show or bar.show)(status.get("indexing") or {})
            now = time.monotonic()
            if now >= begun_s + FIRST_INDEX_S:
                return False
            if now >= notice_at and show is None and not bar.is_seen:
                notice_at = begun_s + FIRST_INDEX_S
                _say_so()
            time.sleep(poll_s)
            poll_s = min(2 * poll_s, MAX_POLL_S)
    return True


def ask_again(
    client: Client, method: str, params: dict[str, Any], answer: dict[str, Any], begun_s: float
) -> dict[str, Any]:
    """The answer once the backlog is indexed, or after ten seconds. An answer without hits is believed only after the disk was checked,
    unless it says itself that there is more to read.
    """
    if _is_reading(client.call("status")):
        if time.monotonic() >= begun_s + FIRST_INDEX_S:
            return answer
        is_complete = wait_until_indexed(client, begun_s)
        answer = client.call(method, **params)
        if not is_complete:
            return answer
    return answer if answer.get("resultCount") else client.call(method, **{**params, "fresh": True})


def _say_so() -> None:
    text = f"sesamectl: reading sessions; answers after {FIRST_INDEX_S:g} s at most, with what has been read"
    print(text, file=sys.stderr, flush=True)


def _is_reading(status: Mapping[str, Any]) -> bool:
    """Whether files wait to be read, or the first sweep is not over."""
    return bool(status["pending"]["files"] or status.get("lastSweepAt") is None)
