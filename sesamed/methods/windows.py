"""The search_sessions method: each hit with the messages around it. The ranking is that of `search`."""

from collections.abc import Iterator

from msgspec.structs import asdict

from sesamed.errors import ParamsError
from sesamed.methods.hits import HeadingField, Hit, Page
from sesamed.methods.method import Call, Context, NonNegative, method
from sesamed.methods.search import About, SearchParams, ask
from sesamed.methods.sessions import cut
from sesamed.model import Answer, Role, Session
from sesamed.sanitize import Exact, Line, clean_text
from sesamed.store.reading import session as read
from sesamed.store.reading import summary
from sesamed.store.reading.resolve import find
from sesamed.store.search.excerpt import find_place
from sesamed.store.sqlite import Connection

MAX_WINDOWS = 20
WINDOW_ITEMS = 16
SNIPPET_BYTES = 1024
LEAD_CHARACTERS = 200  # of the matched message, before what matched


class SearchSessionsParams(SearchParams, frozen=True, kw_only=True):
    """What to search for, and how much context to show."""

    context_before: NonNegative = 4
    context_after: NonNegative = 4


class WindowItem(Answer, frozen=True, kw_only=True):
    """A message or a tool call near a hit; for the hit itself, the part that matched."""

    role: Role
    msg_idx: int
    snippet: Exact  # cleaned before it was cut
    truncated: bool
    tool_name: Line | None


class WindowHit(Answer, frozen=True, kw_only=True):
    """A message that matched, in the session that really contains it; or how a session begins whose heading matches."""

    session_id: Exact
    msg_idx: int
    score: float
    matched_words: list[Exact]
    missing_words: list[Exact]
    field: HeadingField | None  # of the heading, if that is what matches
    meta: Session
    window: list[WindowItem]


class Windows(About, frozen=True, kw_only=True):
    """The best hits, each with what is around it, and what a client needs to judge them."""

    hits: list[WindowHit]


@method
async def search_sessions(context: Context, call: Call, params: SearchSessionsParams) -> Windows:
    """The messages that match best, each with those around it."""
    if params.scope != "here":
        raise ParamsError("scope: search_sessions answers here; search asks a hub, too")
    before, after = limit_window(params.context_before, params.context_after)

    def show(connection: Connection, page: Page) -> list[WindowHit]:
        return [w for hit in page.hits for w in _make_window(connection, hit, before, after, context.workstation)]

    about, hits = await ask(context, call, params, MAX_WINDOWS, show)
    return Windows(hits=hits, **asdict(about))


def limit_window(before: int, after: int) -> tuple[int, int]:
    """How many items to show before and after a hit: as requested, or as many as fit, with the shorter side complete."""
    before, after = min(before, WINDOW_ITEMS), min(after, WINDOW_ITEMS)
    while before + after + 1 > WINDOW_ITEMS:
        before, after = (before - 1, after) if before > after else (before, after - 1)
    return before, after


def _make_window(connection: Connection, hit: Hit, before: int, after: int, workstation: str) -> Iterator[WindowHit]:
    """The items around a hit; none for a session without messages."""
    if hit.match is None:
        return
    session = find(connection, f"{hit.source}:{hit.match.session_id}")
    position = hit.match.msg_idx or 0  # a heading is shown with how the session begins
    first = max(0, position - before)
    items = read.read_items(connection, session, first, position + after + 1 - first)
    if not items:
        return
    matched = "" if hit.match.msg_idx is None else hit.matched_snippet
    yield WindowHit(
        session_id=hit.match.session_id,
        msg_idx=position,
        score=hit.score,
        matched_words=hit.matched_words,
        missing_words=hit.missing_words,
        field=hit.match.field,
        meta=summary.read_session(connection, session, workstation),
        window=[_make_item(connection, item, matched if item.position == position else "") for item in items],
    )


def _make_item(connection: Connection, item: read.Item, matched: str) -> WindowItem:
    text = clean_text(read.read_whole_text(connection, item.record))
    start = 0
    if matched and len(text) > SNIPPET_BYTES:
        start = max(0, find_place(text, matched) - LEAD_CHARACTERS)
    snippet = cut(text[start:], SNIPPET_BYTES)
    truncated = start > 0 or len(snippet) < len(text)
    return WindowItem(role=item.role, msg_idx=item.position, snippet=snippet, truncated=truncated, tool_name=item.tool)
