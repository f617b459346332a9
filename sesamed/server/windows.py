"""The search_sessions method: each hit with the messages around it. The ranking is that of `search`, whatever it is."""

from collections.abc import Iterable, Iterator

import apsw

from sesamed.protocol import Hit, WindowHit, WindowItem
from sesamed.sanitize import clean_text
from sesamed.server.reading import cut
from sesamed.store.reading import messages as read
from sesamed.store.reading import summaries
from sesamed.store.search.excerpt import one_line

WINDOW_ITEMS = 16
SNIPPET_BYTES = 1024
LEAD_CHARACTERS = 200  # of the matched message, before what matched


def around(before: int, after: int) -> tuple[int, int]:
    """How many items to show before and after a hit: as asked for, or as many as fit, the shorter side whole."""
    before, after = min(before, WINDOW_ITEMS), min(after, WINDOW_ITEMS)
    while before + after + 1 > WINDOW_ITEMS:
        before, after = (before - 1, after) if before > after else (before, after - 1)
    return before, after


def windows(
    connection: apsw.Connection, hits: Iterable[Hit], before: int, after: int, workstation: str
) -> list[WindowHit]:
    """What stands around the hits; sessions without a message have none."""
    before, after = around(before, after)
    return [window for hit in hits for window in _window(connection, hit, before, after, workstation)]


def _window(connection: apsw.Connection, hit: Hit, before: int, after: int, workstation: str) -> Iterator[WindowHit]:
    if hit.match is None:
        return
    session = summaries.find(connection, f"{hit.source}:{hit.match.session_id}")
    place = hit.match.msg_idx
    first = max(0, place - before)
    items = read.items(connection, session, first, place + after + 1 - first)
    yield WindowHit(
        session_id=hit.match.session_id,
        msg_idx=place,
        score=hit.score,
        meta=summaries.by_number(connection, [session], workstation)[session],
        window=[_item(connection, item, hit.matched_snippet if item.position == place else "") for item in items],
    )


def _item(connection: apsw.Connection, item: read.Item, matched: str) -> WindowItem:
    text = clean_text(read.whole_text(connection, item.record))
    start = 0
    if matched and len(text) > SNIPPET_BYTES:
        start = max(0, one_line(text).find(matched) - LEAD_CHARACTERS)
    snippet = cut(text[start:], SNIPPET_BYTES)
    truncated = start > 0 or len(snippet) < len(text)
    return WindowItem(role=item.role, msg_idx=item.position, snippet=snippet, truncated=truncated, tool_name=item.tool)
