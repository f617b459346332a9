"""The search_sessions method: each hit with the messages around it. The ranking is that of `search`."""

from collections.abc import Iterator
from functools import partial

from msgspec import msgpack
from msgspec.structs import asdict, replace

from sesamed.errors import HubError
from sesamed.hub.question import Question
from sesamed.hub.sessions import HubMessage, read_sessions, read_windows
from sesamed.hub.words import Known
from sesamed.methods.elsewhere import PATIENCE_MS, ask_hub, make_session
from sesamed.methods.hits import HeadingField, Hit, Place, Told, place_of
from sesamed.methods.method import Call, Context, NonNegative, method
from sesamed.methods.search import (
    DECODE_WANTED,
    ENCODE,
    About,
    SearchParams,
    Shows,
    Wanted,
    ask,
    ask_elsewhere,
    ask_in_time,
)
from sesamed.methods.sessions import cut
from sesamed.model import Answer, Role, Session
from sesamed.sanitize import Exact, Line, clean_text
from sesamed.store.reading import session as read
from sesamed.store.reading import summary
from sesamed.store.reading.resolve import find_called
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
    return await ask_in_time(context, params, partial(_search_sessions, context, call))


async def _search_sessions(context: Context, call: Call, params: SearchSessionsParams) -> Windows:
    before, after = limit_window(params.context_before, params.context_after)
    if params.scope != "here":
        return await _search_elsewhere(context, call, params, before, after)

    about, hits = await ask(context, call, params, MAX_WINDOWS, Shows((before, after), _show, _decode))
    return Windows(hits=hits, **asdict(about))


def _show(connection: Connection, wanted: Wanted, told: Told) -> list[WindowHit]:
    before, after = wanted.around or (0, 0)
    return [window for hit in told.hits for window in _make_window(connection, hit, before, after, wanted.workstation)]


DECODE_WINDOWS = msgpack.Decoder(tuple[Told, list[WindowHit]]).decode


def _decode(answer: bytes) -> tuple[Told, list[WindowHit], list[str]]:
    told, windows = DECODE_WINDOWS(answer)
    return told, windows, []


def answer_encoded(connection: Connection, question: bytes) -> bytes:
    """The answer in the second process: hits, or what is around them."""
    wanted = DECODE_WANTED(question)
    told = wanted.answer(connection)
    if wanted.around is None:
        return ENCODE(told)
    return ENCODE((replace(told, hits=[]), _show(connection, wanted, told)))


async def _search_elsewhere(
    context: Context, call: Call, params: SearchSessionsParams, before: int, after: int
) -> Windows:
    """What surrounds hits in a hub is asked of it when they are known. If it does not answer then, that is as if it had not before."""
    about, page = await ask_elsewhere(context, call, params, MAX_WINDOWS)
    there = [hit for hit in page.hits if hit.as_of is not None and hit.match is not None]
    here = [hit for hit in page.hits if hit.as_of is None]
    found, warnings = dict[Place, WindowHit](), list[str]()
    limit_ms = context.queries.limit_ms(params.timeout_ms)
    limit_ms = limit_ms if params.scope == "hub" else min(limit_ms, PATIENCE_MS)
    try:
        read = partial(_read_windows, there, [page.there[place_of(hit)] for hit in there], before, after)
        found |= await ask_hub(context, read, max(1, limit_ms - int(about.took_ms))) if there else {}
    except HubError as error:
        if params.scope == "hub":
            raise
        warnings.append(error.message)

    def show(connection: Connection) -> dict[Place, WindowHit]:
        of_hits = ((place_of(hit), _make_window(connection, hit, before, after, context.workstation)) for hit in here)
        return {place: window for place, windows in of_hits for window in windows}

    found |= await context.queries.ask(call.client, show, params.timeout_ms) if here else {}
    hits = [found[place_of(hit)] for hit in page.hits if place_of(hit) in found]
    about = replace(about, result_count=len(hits), warnings=about.warnings + warnings)
    return Windows(hits=hits, **asdict(about))


def _read_windows(
    hits: list[Hit], places: list[tuple[Known, int]], before: int, after: int, question: Question
) -> dict[Place, WindowHit]:
    """What surrounds these hits. What has gone meanwhile is not among it."""
    windows = read_windows(question, places, before, after)
    sessions = read_sessions(question, [known for known, _ in places])
    about = {(one.owner, one.composite_key): make_session(one) for one in sessions}
    found = {}
    for hit, (known, number), messages in zip(hits, places, windows, strict=True):
        if not messages or (known.owner, known.key) not in about:
            continue
        matched = hit.matched_snippet if hit.match and hit.match.msg_idx is not None else ""
        items = [_make_item_there(one, matched if one.number == number else "") for one in messages]
        found[place_of(hit)] = _make_window_hit(hit, number, about[known.owner, known.key], items)
    return found


def _make_item_there(message: HubMessage, matched: str) -> WindowItem:
    """Of a long text its beginning is there: what matched behind that is shown as the hit shows it."""
    text = clean_text(message.text)
    if matched and find_place(text, matched) < 0:
        snippet, truncated = matched, True
    else:
        snippet, truncated = _cut_snippet(text, matched)
    tool = message.tool
    return WindowItem(
        role=message.as_role,
        msg_idx=message.number,
        snippet=snippet,
        truncated=truncated or message.is_cut,
        tool_name=tool,
    )


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
    session = find_called(connection, hit.source, hit.match.session_id)
    position = hit.match.msg_idx or 0  # a heading is shown with how the session begins
    first = max(0, position - before)
    items = read.read_items(connection, session, first, position + after + 1 - first)
    if not items:
        return
    matched = "" if hit.match.msg_idx is None else hit.matched_snippet
    about = summary.read_session(connection, session, workstation)
    shown = [_make_item(connection, item, matched if item.position == position else "") for item in items]
    yield _make_window_hit(hit, position, about, shown)


def _make_window_hit(hit: Hit, position: int, about: Session, window: list[WindowItem]) -> WindowHit:
    return WindowHit(
        session_id=about.session_id,
        msg_idx=position,
        score=hit.score,
        matched_words=hit.matched_words,
        missing_words=hit.missing_words,
        field=hit.match.field if hit.match else None,
        meta=about,
        window=window,
    )


def _make_item(connection: Connection, item: read.Item, matched: str) -> WindowItem:
    text = clean_text(read.read_whole_text(connection, item.record))
    snippet, truncated = _cut_snippet(text, matched)
    return WindowItem(role=item.role, msg_idx=item.position, snippet=snippet, truncated=truncated, tool_name=item.tool)


def _cut_snippet(text: str, matched: str) -> tuple[str, bool]:
    """The beginning of a text, or what is around what matched; and whether there is more."""
    start = 0
    if matched and len(text) > SNIPPET_BYTES:
        start = max(0, find_place(text, matched) - LEAD_CHARACTERS)
    snippet = cut(text[start:], SNIPPET_BYTES)
    return snippet, start > 0 or len(snippet) < len(text)
