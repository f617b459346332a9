"""The search method: turns a query into hits that explain themselves. The ranking is in the store."""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct, msgpack
from msgspec.structs import asdict, replace

from sesamed.errors import ParamsError
from sesamed.methods.elsewhere import (
    PATIENCE_MS,
    Scope,
    ask_both,
    ask_hub,
    find_hits,
    make_condition_elsewhere,
    merge_pages,
)
from sesamed.methods.filters import (
    EVERYTHING,
    TIMES,
    Filters,
    find_clock,
    is_project_name,
    make_condition,
    narrow,
    warn_of_unknown_tools,
)
from sesamed.methods.hits import FIELDS, Hit, Match, Page, Told, Why, WordCount, join_shown, make_hit
from sesamed.methods.method import MAX_OFFSET, Beside, Call, Context, NonNegative, method
from sesamed.methods.time_words import TimeFilter, asks_for_something, find_ending, read_ending
from sesamed.methods.whose import narrow_to_named
from sesamed.model import Answer, Pending, Session, iso_or_none
from sesamed.sanitize import Exact, Line, clean_text
from sesamed.store import ids
from sesamed.store.ids import Kind
from sesamed.store.reading import session as read
from sesamed.store.reading import summary
from sesamed.store.search import filters, matching, ranking, scoring, terms
from sesamed.store.search.excerpt import Excerpt, Excerpter
from sesamed.store.search.shown import Found
from sesamed.store.search.terms import Query, expand
from sesamed.store.sqlite import Connection

T = TypeVar("T")
P = TypeVar("P", bound="SearchParams")
A = TypeVar("A", bound="About")
MAX_HITS = 100
FRESH_SHARE = 0.5  # of a search's time may go into waiting for what is on disk
OPENING_ITEMS = 20  # of a session are looked through for its first message


class SearchParams(Filters, frozen=True, kw_only=True):
    """What to search for, and which hits to return."""

    query: str
    limit: NonNegative = 10
    offset: NonNegative = 0
    sort: Literal["relevance", "recent"] = "relevance"
    similar_to: str | None = None
    fresh: bool = False
    timeout_ms: NonNegative | None = None
    scope: Scope = "here"
    person: str | None = None
    time_words: bool = False


class About(Answer, frozen=True, kw_only=True):
    """What a client needs to judge an answer."""

    query: Exact
    result_count: int
    total: int  # hits in all; at least so many, unless `total_exact`
    total_exact: bool
    next_offset: int | None  # null at the end
    words: list[WordCount]
    corrected: Mapping[str, str]
    dropped: list[Exact]
    excluded: list[Exact]
    weak: bool
    filtered_out: int
    content_trust: Literal["untrusted-transcript"]
    pending: Pending
    warnings: list[Line]
    took_ms: float
    time_filter: TimeFilter | None = None


class SearchResult(About, frozen=True, kw_only=True):
    """The hits, and what a client needs to judge them."""

    results: list[Hit]


@method
async def search(context: Context, call: Call, params: SearchParams) -> SearchResult:
    """Sessions that match the words best, each with the record that matched."""
    return await ask_in_time(context, params, partial(_search, context, call))


async def _search(context: Context, call: Call, params: SearchParams) -> SearchResult:
    if params.scope == "here":
        about, hits = await ask(context, call, params, MAX_HITS, HITS)
        return SearchResult(results=hits, **asdict(about))
    about, page = await ask_elsewhere(context, call, params, MAX_HITS)
    return SearchResult(results=page.hits, **asdict(about))


@dataclass(frozen=True)
class Shows(Generic[T]):
    """What becomes of the hits of an answer, and how the second process says that."""

    around: tuple[int, int] | None
    show: Callable[[Connection, "Wanted", Told], list[T]]
    decode: Callable[[bytes], tuple[Told, list[T], list[str]]]


async def ask(context: Context, call: Call, params: SearchParams, most: int, shows: Shows[T]) -> tuple[About, list[T]]:
    """Run a search of the index, and show each page of it where it was made: in the reader's thread, or in the second process."""
    asked = await _begin(context, params, most)
    where = await make_condition(context, params)
    wanted = Wanted(asked.query, where, context.workstation, asked.limit, asked.offset, asked.recent, shows.around)

    def find(connection: Connection) -> tuple[Told, list[T], list[str]]:
        searched = narrow_to_named(connection, where, params, context.hub)
        if params.similar_to is not None:
            told = replace(wanted, where=narrow(connection, searched, params.similar_to)).answer(connection)
            told = replace(told, filtered_out=0)  # what is not alike was not filtered out
        else:
            told = replace(wanted, where=searched).answer(connection)
        unknown = warn_of_unknown_tools(connection, params) if params.tool else []
        return told, shows.show(connection, wanted, told), unknown

    is_whole = params.similar_to is params.person is params.project is None and not params.tool
    beside = Beside(partial(ENCODE, wanted), shows.decode) if is_whole else None
    found, shown, unknown = await context.queries.ask(call.client, find, asked.left_ms(), beside)
    return _make_about(context, asked, found, len(shown), unknown), shown


async def ask_in_time(context: Context, params: P, ask: Callable[[P], Awaitable[A]]) -> A:
    """The answer to a question, of the time that words at its end name. Where that leaves nothing, of all times: people misremember when
    something was sooner than what."""
    ending = find_ending(params.query) if params.time_words else None
    if ending is None or any(getattr(params, name) is not None for name in TIMES):
        return await ask(params)
    meant = read_ending(ending, await find_clock(context, params))
    if meant is None:
        return await ask(params)
    if not asks_for_something(ending):
        return replace(await ask(params), time_filter=meant.told("words"))
    begun_s = time.perf_counter()
    rest = replace(params, query=meant.rest)
    answer = await ask(replace(rest, after=meant.after, before=meant.before))
    if answer.total:
        return replace(answer, query=params.query, time_filter=meant.told("acts"))
    left_ms = None if params.timeout_ms is None else max(1, params.timeout_ms - _since_ms(begun_s))
    again = await ask(replace(rest, timeout_ms=left_ms, fresh=False))
    told = {"pending": answer.pending, "took_ms": round(answer.took_ms + again.took_ms, 3)}
    return replace(again, query=params.query, time_filter=meant.told("nothing"), **told)


def _since_ms(begun_s: float) -> int:
    return int((time.perf_counter() - begun_s) * 1000)


class Asked(NamedTuple):
    """A question that is under way."""

    params: SearchParams
    query: Query
    limit: int
    offset: int
    begun_s: float
    pending: Pending

    @property
    def recent(self) -> bool:
        """Whether the newest come first."""
        return self.params.sort == "recent"

    def left_ms(self) -> int | None:
        """What is left of the client's time."""
        return None if self.params.timeout_ms is None else max(1, self.params.timeout_ms - _since_ms(self.begun_s))


async def _begin(context: Context, params: SearchParams, most: int) -> Asked:
    begun_s = time.perf_counter()
    pending = context.ingest.pending()
    if params.fresh:
        share = context.queries.limit_ms(params.timeout_ms) * FRESH_SHARE / 1000
        pending = (await context.ingest.sync(None, share))[0]
    limit, offset = min(params.limit, most), min(params.offset, MAX_OFFSET)
    return Asked(params, terms.parse(params.query), limit, offset, begun_s, pending)


def _make_about(context: Context, asked: Asked, found: Told, count: int, warnings: list[str]) -> About:
    took_ms = (time.perf_counter() - asked.begun_s) * 1000
    context.queries.record_time(took_ms)
    following = asked.offset + asked.limit
    return About(
        query=asked.params.query,
        result_count=count,
        total=found.total,
        total_exact=found.total_exact,
        next_offset=following if asked.limit and found.total > following else None,
        words=found.words,
        corrected=found.corrected,
        dropped=found.dropped,
        excluded=[word.text for word in asked.query.excluded],
        weak=found.weak,
        filtered_out=found.filtered_out,
        content_trust="untrusted-transcript",
        pending=asked.pending,
        warnings=[trouble.message for trouble in context.ingest.troubles()] + warnings,
        took_ms=round(took_ms, 3),
    )


# -- with a hub


async def ask_elsewhere(context: Context, call: Call, params: SearchParams, most: int) -> tuple[About, Page]:
    """What a hub has, with or without what is here. Where both are asked, a hub that does not answer is a warning."""
    if params.similar_to is not None:
        raise ParamsError("similarTo: only the index knows what is shown as one; ask with scope here")
    asked = await _begin(context, params, most)
    where = await make_condition_elsewhere(context, params)
    if params.scope == "hub":
        find = partial(find_hits, asked.query, where, asked.limit, asked.offset, recent=asked.recent)
        page = await ask_hub(context, find, context.queries.limit_ms(asked.left_ms()))
        return _make_about(context, asked, page.tell(), len(page.hits), []), page
    until = asked.limit + asked.offset
    find = partial(find_hits, asked.query, where, until, 0, recent=asked.recent)
    both = await ask_both(
        partial(_find_here, context, call, asked), partial(ask_hub, context, find), asked.left_ms() or PATIENCE_MS
    )
    page, unknown = both.here
    if both.there is not None:
        # Of what is followed the index does not know what its project is called: the hub does.
        keys = [] if params.project and is_project_name(params.project) else [hit.key for hit in both.there.hits]
        known = await context.queries.ask(
            call.client, lambda connection: summary.list_known(connection, keys, context.workstation)
        )
        page = merge_pages(page, both.there, known, asked.limit, asked.offset, recent=asked.recent)
    else:
        page = page._replace(hits=page.hits[asked.offset : until])
    return _make_about(context, asked, page.tell(), len(page.hits), unknown + both.warnings), page


async def _find_here(context: Context, call: Call, asked: Asked) -> tuple[Page, list[str]]:
    """As many hits as may come on the page, from the first one on."""
    where = await make_condition(context, asked.params)

    def find(connection: Connection) -> tuple[Page, list[str]]:
        named = narrow_to_named(connection, where, asked.params, context.hub)
        page = Searcher(connection, asked.query, named, context.workstation).run(
            asked.limit + asked.offset, 0, recent=asked.recent
        )
        return page, warn_of_unknown_tools(connection, asked.params) if asked.params.tool else []

    return await context.queries.ask(call.client, find, asked.left_ms())


class Wanted(Struct, frozen=True, array_like=True):
    """What is searched in the index, by the daemon or beside it."""

    query: Query
    where: filters.Conditions
    workstation: str
    limit: int
    offset: int
    recent: bool
    around: tuple[int, int] | None = None  # how much of what is around hits

    def answer(self, connection: Connection) -> Told:
        """The answer, in a reader's thread."""
        searcher = Searcher(connection, self.query, self.where, self.workstation)
        return searcher.run(self.limit, self.offset, recent=self.recent).tell()


ENCODE = msgpack.Encoder().encode
DECODE_WANTED = msgpack.Decoder(Wanted).decode
DECODE_TOLD = msgpack.Decoder(Told).decode


def _decode_hits(answer: bytes) -> tuple[Told, list[Hit], list[str]]:
    told = DECODE_TOLD(answer)
    return told, told.hits, []


HITS = Shows[Hit](None, lambda connection, wanted, told: told.hits, _decode_hits)


class Around(NamedTuple):
    """What is known of a page's sessions, and of the records that matched, each in its session."""

    sessions: Mapping[int, Session]
    headings: Mapping[int, Mapping[str, str]]
    items: Mapping[tuple[int, int], read.Item]


class Searcher:
    """One search, in a reader's thread."""

    def __init__(self, connection: Connection, query: Query, where: filters.Conditions, workstation: str) -> None:
        self._connection = connection
        self._query = query
        self._where = where
        self._workstation = workstation
        self._terms = expand(connection, query)
        self._excerpter = Excerpter(connection, self._terms.terms)

    def run(self, limit: int, offset: int, *, recent: bool) -> Page:
        """The hits of one page."""
        if self._query.everything:
            total, sessions = summary.list_sessions(self._connection, self._where, limit, offset, self._workstation)
            folded = summary.count_folded(self._connection, self._where, sessions)
            opened = ((number, self._show_opening(number, about, about)) for number, about in sessions.items())
            hits = [replace(hit, subagents=folded.get(number, 0)) for number, hit in opened]
            return Page(hits, self._terms, total, filtered_out=0 if total else self._count_filtered_out())
        more = limit + offset + 1  # one more says whether there is a next page
        ranked = ranking.rank_sessions(self._connection, self._terms, self._where, more, recent=recent)
        page, best = ranked.hits[offset : offset + limit], ranked.best
        if best is None:
            return Page([], self._terms, filtered_out=self._count_filtered_out())
        owners = (one for hit in page for one in hit.members)
        holders = matching.find_holders(self._connection, self._terms, ranked.where, owners)
        hits = self._make_hits(page, holders, best.score)
        matched = hits[page.index(best)].matched_words if best in page else self._find_matched_words(best)
        counted = terms.count_shown(self._terms, [join_shown(hit) for hit in hits])
        weak, share = scoring.is_weak(self._terms, matched, best.strength), scoring.measure_share(self._terms, matched)
        return Page(hits, counted, ranked.total, ranked.is_exact, weak=weak, share=share)

    def _count_filtered_out(self) -> int:
        if not (self._where.session or self._where.record):
            return 0
        if self._query.everything:
            return summary.list_sessions(self._connection, EVERYTHING, 0, 0, self._workstation)[0]
        return ranking.count_hits(self._connection, self._terms, EVERYTHING)

    def _make_hits(self, page: list[Found], holders: Mapping[int, set[int]], most: float) -> list[Hit]:
        """The hits of a page, of which the best of all has so much; in the order of their records, so that of their texts, which may be
        long, only one record's are in memory."""
        by_record = defaultdict[int | None, list[Found]](list)
        for one in page:
            by_record[None if one.chunk is None else ids.record_of(one.chunk)].append(one)
        records = [record for record in by_record if record is not None]
        about = self._read_about(page)
        made = dict[int, Hit]()
        for record, texts in chain([(None, dict[int, str]())], read.read_each_text(self._connection, records)):
            for one in by_record[record]:
                held = set[int]().union(*(holders.get(member, ()) for member in one.members)) - one.members.keys()
                similar = len((one.similar | held) - {one.shown})
                made[one.session] = self._make_hit(one, about, texts, round(one.score / most, 4), similar)
        return [made[one.session] for one in page]

    def _read_about(self, page: list[Found]) -> Around:
        numbers = {number for one in page for number in (one.shown, one.session)}
        places = [(one.session, ids.record_of(one.chunk)) for one in page if one.chunk is not None]
        return Around(
            summary.read_sessions(self._connection, numbers, self._workstation),
            matching.read_headings(self._connection, (one.session for one in page)),
            read.find_items(self._connection, places),
        )

    def _make_hit(self, found: Found, about: Around, texts: Mapping[int, str], score: float, similar: int) -> Hit:
        session, heading = about.sessions[found.session], about.headings[found.session]
        if found.chunk is None:
            excerpt, match = self._show_heading(heading, session)
        else:
            excerpt = self._excerpter.excerpt(texts.get(ids.kind_of(found.chunk), ""))
            match = _make_match(session, about.items[found.session, ids.record_of(found.chunk)])
        matched, missing = self._excerpter.match(texts, heading.values())
        why = Why(score, matched, missing, similar, found.subagents)
        return make_hit(about.sessions[found.shown], excerpt, match, why)

    def _find_matched_words(self, found: Found) -> list[str]:
        """Which words match a hit that is not on the page."""
        records = [] if found.chunk is None else [ids.record_of(found.chunk)]
        _, texts = next(read.read_each_text(self._connection, records), (None, {}))
        heading = matching.read_headings(self._connection, [found.session])[found.session]
        return self._excerpter.match(texts, heading.values())[0]

    def _show_heading(self, heading: Mapping[str, str], session: Session) -> tuple[Excerpt, Match]:
        """A hit of which no text matches shows the part of its heading with the most words."""
        column = max(heading, key=lambda one: len(self._excerpter.match({}, [heading[one]])[0]))
        place = Match(
            session_id=session.session_id,
            short_id=session.short_id,
            path=session.path,
            kind="heading",
            role=None,
            tool_name=None,
            msg_idx=None,
            entry_id=None,
            timestamp=None,
            field=FIELDS[column],
        )
        text = clean_text(heading[column])  # a directory is kept as it is
        if column == "recall_words":  # not for reading
            text = heading.get("summary") or session.name or ""
        return self._excerpter.excerpt(text), place

    def _show_opening(self, number: int, session: Session, shown: Session) -> Hit:
        """Without words, a session shows its first message."""
        for item in read.read_items(self._connection, number, 0, OPENING_ITEMS):
            if item.kind == Kind.USER and (text := read.read_whole_text(self._connection, item.record)):
                return make_hit(shown, self._excerpter.excerpt(text), _make_match(session, item))
        return make_hit(shown, Excerpt("", []), None)


def _make_match(session: Session, item: read.Item) -> Match:
    return Match(
        session_id=session.session_id,
        short_id=session.short_id,
        path=session.path,
        kind="message" if item.kind < Kind.CALL else "tool_call",
        role=item.role,
        tool_name=item.tool,
        msg_idx=item.position,
        entry_id=item.entry,
        timestamp=iso_or_none(item.time_ms),
        undone=item.undone,
    )
