"""The search method: turns a query into hits that explain themselves. The ranking is in the store."""

import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeVar

from msgspec.structs import asdict, replace

from sesamed.methods.filters import EVERYTHING, Filters, make_condition, narrow, warn_of_unknown_tools
from sesamed.methods.method import MAX_OFFSET, Call, CodePoints, Context, NonNegative, method
from sesamed.model import Answer, Pending, Role, Session, iso_or_none
from sesamed.sanitize import Exact, Line, Time
from sesamed.store.ids import Kind
from sesamed.store.reading import session as read
from sesamed.store.reading import summary
from sesamed.store.search import filters, matching, ranking, scoring, terms
from sesamed.store.search.excerpt import Excerpt, Excerpter
from sesamed.store.search.shown import Found
from sesamed.store.search.terms import Query, Terms, expand
from sesamed.store.sqlite import Connection

T = TypeVar("T")
MAX_HITS = 100
FRESH_SHARE = 0.5  # of a search's time may go into waiting for what is on disk
OPENING_ITEMS = 20  # of a session are looked through for its first message


HeadingField = Literal["title", "summary", "description", "tags", "recallWords", "cwd", "gitBranch"]
FIELDS: Mapping[str, HeadingField] = {
    "title": "title",
    "summary": "summary",
    "description": "description",
    "tags": "tags",
    "recall_words": "recallWords",
    "cwd": "cwd",
    "git_branch": "gitBranch",
}


class SearchParams(Filters, frozen=True, kw_only=True):
    """What to search for, and which hits to return."""

    query: str
    limit: NonNegative = 10
    offset: NonNegative = 0
    sort: Literal["relevance", "recent"] = "relevance"
    similar_to: str | None = None
    fresh: bool = False
    timeout_ms: NonNegative | None = None


class Match(Answer, frozen=True, kw_only=True):
    """The record that matched, in the session and file that really contain it; or what the session is called, or where it worked."""

    session_id: Exact
    short_id: Exact
    path: Exact
    kind: Literal["message", "tool_call", "heading"]
    role: Role | None  # these are null for headings
    tool_name: Line | None
    msg_idx: int | None
    entry_id: Exact | None
    timestamp: Time | None
    undone: bool = False
    field: HeadingField | None = None  # of a heading


class Hit(Session, frozen=True, kw_only=True):
    """A session that matched."""

    score: float
    matched_snippet: Exact  # clean; `highlights` are places in it
    highlights: list[tuple[CodePoints, CodePoints]]
    matched_words: list[Exact]  # as they were asked for
    missing_words: list[Exact]
    match: Match | None  # null only if the query has no words
    similar: int
    subagents: int


class WordCount(Answer, frozen=True, kw_only=True):
    """Where a word of the query is, whatever the filters; it is nowhere in the index if all of these are 0."""

    word: Exact
    chunks: int
    forms: int  # chunks that contain another form of it: within a longer word, or -ification of -ify
    headings: int  # sessions with it in their title, annotations, directory or branch


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


class SearchResult(About, frozen=True, kw_only=True):
    """The hits, and what a client needs to judge them."""

    results: list[Hit]


@method
async def search(context: Context, call: Call, params: SearchParams) -> SearchResult:
    """Sessions that match the words best, each with the record that matched."""
    about, hits = await ask(context, call, params, MAX_HITS, lambda connection, page: page.hits)
    return SearchResult(results=hits, **asdict(about))


async def ask(
    context: Context, call: Call, params: SearchParams, most: int, show: Callable[[Connection, "Page"], list[T]]
) -> tuple[About, list[T]]:
    """Run a search, and show each page of it in the reader's thread."""
    begun = time.perf_counter()
    pending = context.ingest.pending()
    if params.fresh:
        share = context.queries.limit_ms(params.timeout_ms) * FRESH_SHARE / 1000
        pending = (await context.ingest.sync(None, share))[0]
    compiled = terms.parse(params.query)
    where = await make_condition(context, params)
    limit, offset, recent = min(params.limit, most), min(params.offset, MAX_OFFSET), params.sort == "recent"

    def find(connection: Connection) -> tuple[Page, list[T], list[str]]:
        searched = where if params.similar_to is None else narrow(connection, where, params.similar_to)
        page = Searcher(connection, compiled, searched, workstation).run(limit, offset, recent=recent)
        if params.similar_to is not None:  # what is not alike was not filtered out
            page = page._replace(filtered_out=0)
        unknown = warn_of_unknown_tools(connection, params) if params.tool else []
        return page, show(connection, page), unknown

    workstation = context.workstation
    found, shown, unknown = await context.queries.ask(call.client, find, _left_ms(params.timeout_ms, begun))
    took_ms = (time.perf_counter() - begun) * 1000
    context.queries.record_time(took_ms)
    about = About(
        query=params.query,
        result_count=len(shown),
        total=found.total,
        total_exact=found.total_exact,
        next_offset=offset + limit if limit and found.total > offset + limit else None,
        words=found.words,
        corrected=found.terms.corrected,
        dropped=list(found.terms.dropped),
        excluded=[word.text for word in compiled.excluded],
        weak=found.weak,
        filtered_out=found.filtered_out,
        content_trust="untrusted-transcript",
        pending=pending,
        warnings=[trouble.message for trouble in context.ingest.troubles()] + unknown,
        took_ms=round(took_ms, 3),
    )
    return about, shown


def _left_ms(timeout_ms: int | None, begun: float) -> int | None:
    """What is left of the client's time."""
    return None if timeout_ms is None else max(1, timeout_ms - int((time.perf_counter() - begun) * 1000))


class Page(NamedTuple):
    """A page of hits, and what is known about all of them."""

    hits: list[Hit]
    terms: Terms
    total: int = 0
    total_exact: bool = True
    filtered_out: int = 0
    weak: bool = False

    @property
    def words(self) -> list[WordCount]:
        """Where each word is."""
        return [
            WordCount(
                word=term.word.text,
                chunks=term.chunks,
                forms=term.forms,
                headings=len(term.headings.titled | term.headings.placed),
            )
            for term in self.terms.terms
        ]


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
        numbers = {number for one in page for number in (one.shown, one.session)}
        sessions = summary.read_sessions(self._connection, numbers, self._workstation)
        hits = [self._make_hit(one, sessions, holders, one.score / best.score) for one in page]
        matched = hits[page.index(best)].matched_words if best in page else self._find_matched_words(best)
        counted = terms.count_shown(self._terms, [_join_shown(hit) for hit in hits])
        return Page(hits, counted, ranked.total, ranked.is_exact, weak=scoring.is_weak(self._terms, matched))

    def _count_filtered_out(self) -> int:
        if not (self._where.session or self._where.record):
            return 0
        if self._query.everything:
            return summary.list_sessions(self._connection, EVERYTHING, 0, 0, self._workstation)[0]
        return ranking.count_hits(self._connection, self._terms, EVERYTHING)

    def _make_hit(
        self, found: Found, sessions: Mapping[int, Session], holders: Mapping[int, set[int]], score: float
    ) -> Hit:
        shown, session = sessions[found.shown], sessions[found.session]
        texts = dict[int, str]()
        if found.chunk is None:
            hit = self._show_heading(found.session, session, shown)
        else:
            text, record, texts = read.read_chunk(self._connection, found.chunk)
            item = read.read_item(self._connection, found.session, record)
            hit = _make_hit(shown, self._excerpter.excerpt(text), _make_match(session, item))
        matched, missing = self._match_words(found, texts)
        held = set[int]().union(*(holders.get(one, ()) for one in found.members)) - found.members.keys()
        return replace(
            hit,
            score=round(score, 4),
            matched_words=matched,
            missing_words=missing,
            similar=len((found.similar | held) - {found.shown}),
            subagents=found.subagents,
        )

    def _find_matched_words(self, found: Found) -> list[str]:
        """Which words match a hit that is not on the page."""
        texts = {} if found.chunk is None else read.read_chunk(self._connection, found.chunk).texts
        return self._match_words(found, texts)[0]

    def _match_words(self, found: Found, texts: Mapping[int, str]) -> tuple[list[str], list[str]]:
        """Which words are in the best record or the session's heading, and which are not."""
        heading = matching.read_heading(self._connection, found.session)
        return self._excerpter.match(texts, heading.values())

    def _show_heading(self, number: int, session: Session, shown: Session) -> Hit:
        """A hit of which no text matches shows the part of its heading with the most words."""
        heading = matching.read_heading(self._connection, number)
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
        text = heading[column]
        if column == "recall_words":  # not for reading
            text = heading.get("summary") or session.name or ""
        return _make_hit(shown, self._excerpter.excerpt(text), place)

    def _show_opening(self, number: int, session: Session, shown: Session) -> Hit:
        """Without words, a session shows its first message."""
        for item in read.read_items(self._connection, number, 0, OPENING_ITEMS):
            if item.kind == Kind.USER and (text := read.read_whole_text(self._connection, item.record)):
                return _make_hit(shown, self._excerpter.excerpt(text), _make_match(session, item))
        return _make_hit(shown, Excerpt("", []), None)


def _join_shown(hit: Hit) -> str:
    return f"{hit.matched_snippet}\n{hit.name}\n{hit.cwd}\n{hit.git_branch}"


def _make_hit(session: Session, excerpt: Excerpt, place: Match | None) -> Hit:
    return Hit(
        **asdict(session),
        score=1.0,
        matched_snippet=excerpt.text,
        highlights=excerpt.highlights,
        matched_words=[],
        missing_words=[],
        match=place,
        similar=0,
        subagents=0,
    )


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
