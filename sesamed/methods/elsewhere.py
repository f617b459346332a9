"""What a hub answers: hits, lists and pages like those of the index; and both as one answer.

What comes from a hub was written by other machines: it is cleaned like a transcript, its ids and paths, too.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import anyio
import msgspec
from anyio import to_thread
from msgspec.structs import replace

from sesamed.errors import HubError, NotFoundError, SesameError
from sesamed.hub.conditions import Conditions, Elsewhere, to_sql
from sesamed.hub.matching import Ranked, Search
from sesamed.hub.question import Deadline, Question
from sesamed.hub.sessions import HubMessage, HubSession, list_sessions, read_messages, read_openings, read_sessions
from sesamed.hub.words import Known
from sesamed.methods.filters import make_where
from sesamed.methods.hits import FIELDS, Hit, Match, Page, Place, join_shown, make_hit, place_of
from sesamed.methods.method import Context
from sesamed.model import Session, iso, iso_or_none
from sesamed.sanitize import clean_line, clean_text
from sesamed.store.ids import Kind
from sesamed.store.reading.summary import LISTED_CHARACTERS, LISTED_TAG, LISTED_TAGS
from sesamed.store.search import scoring, terms
from sesamed.store.search.excerpt import Excerpt, Excerpter
from sesamed.store.search.filters import Where
from sesamed.store.search.terms import Query, open_tokenizer

T = TypeVar("T")
U = TypeVar("U")
Scope = Literal["here", "hub", "both"]
PATIENCE_MS = 2000  # with a hub, where the index answers as well
NO_HUB = "no hub is configured; name one in config.jsonc (hub.dsn), and run `sesamectl restart`"
TOOL_COUNTS = msgspec.json.Decoder(dict[str, int])
KINDS: Mapping[str, Kind] = {"user": Kind.USER, "custom": Kind.CUSTOM, "summary": Kind.SUMMARY}


async def ask_hub(context: Context, find: Callable[[Question], T], limit_ms: int) -> T:
    """Ask it, in a thread. Raises HubError; after so long in any case."""
    asker = context.asker
    if asker is None:
        raise HubError(NO_HUB, cause="configuration")
    deadline = Deadline(limit_ms)

    def run() -> T:
        with asker.ask(deadline) as question:
            return find(question)

    try:
        with anyio.fail_after(limit_ms / 1000):
            return await to_thread.run_sync(run, abandon_on_cancel=True, limiter=context.asker_turns)
    except TimeoutError:
        raise HubError(f"the hub did not answer within {limit_ms} ms", cause="deadline") from None
    finally:
        deadline.give_up()


class Both(NamedTuple, Generic[T, U]):
    """What is here, and what a hub has, unless it does not answer."""

    here: T
    there: U | None
    warnings: list[str]


async def ask_both(here: Callable[[], Awaitable[T]], there: Callable[[int], Awaitable[U]], limit_ms: int) -> Both[T, U]:
    """Both at the same time. What goes wrong here is an error; a hub costs its patience at most, and a warning."""
    answers: list[U] = []
    warnings: list[str] = []

    async def ask_there() -> None:
        try:
            answers.append(await there(min(limit_ms, PATIENCE_MS)))
        except HubError as error:
            warnings.append(error.message)

    error: SesameError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(ask_there)
        try:
            answer = await here()
        except SesameError as failed:  # it would become one of a group of errors
            error = failed
            group.cancel_scope.cancel()
    if error is not None:
        raise error
    return Both(answer, answers[0] if answers else None, warnings)


def limit_ms(context: Context, scope: Scope) -> int:
    """How long a hub has for a question that says nothing of that."""
    most = context.queries.limit_ms(None)
    return min(most, PATIENCE_MS) if scope == "both" else most


async def ask_first(scope: Scope, here: Callable[[], Awaitable[T]], there: Callable[[], Awaitable[T]]) -> T:
    """A session is read where it is: with scope `both` here, if it is here."""
    if scope == "hub":
        return await there()
    try:
        return await here()
    except NotFoundError:
        if scope == "here":
            raise
    return await there()


async def make_condition_elsewhere(context: Context, params: Any) -> Conditions:
    """The filters for a hub: which machine and which project is meant, it knows otherwise than the index."""
    where = await make_where(context, msgspec.structs.replace(params, workstation=None, project=None))
    without = context.workstation if params.scope == "both" else None
    return to_sql(where, Elsewhere(params.workstation, params.project, params.person, without))


def find_hits(
    query: Query, conditions: Conditions, limit: int, offset: int, question: Question, *, recent: bool
) -> Page:
    """A page of hits."""
    if query.everything:
        return _list_hits(question, query, conditions, limit, offset)
    search = Search(question, open_tokenizer(), query, conditions)
    ranked = search.rank(limit + offset + 1, recent=recent)
    if ranked.best is None:
        filtered_out = 0 if conditions.is_open else _count_all(question, query)
        return Page([], search.terms, filtered_out=filtered_out)
    return _Shower(question, search, ranked).show(offset, limit)


def _count_all(question: Question, query: Query) -> int:
    return Search(question, open_tokenizer(), query, to_sql(Where(), Elsewhere())).rank(1, recent=False).total


def _list_hits(question: Question, query: Query, where: Conditions, limit: int, offset: int) -> Page:
    """Without words, a session shows its first message."""
    total, known = list_sessions(question, where, limit, offset)
    sessions = map(make_session, read_sessions(question, known))
    excerpter = Excerpter(open_tokenizer())
    hits, there = [], dict[Place, tuple[Known, int]]()
    for session, one, opening in zip(sessions, known, read_openings(question, known), strict=True):
        excerpt = Excerpt("", []) if opening is None else excerpter.excerpt(clean_text(opening.text))
        hits.append(make_hit(session, excerpt, None if opening is None else _make_match(session, opening)))
        there[place_of(hits[-1])] = one, 0 if opening is None else opening.number
    found = Search(question, open_tokenizer(), query, where).terms
    filtered_out = 0 if total or where.is_open else list_sessions(question, to_sql(Where(), Elsewhere()), 0, 0)[0]
    return Page(hits, found, total, filtered_out=filtered_out, there=there)


class _Shower:
    """Makes hits of what was found."""

    def __init__(self, question: Question, search: Search, ranked: Ranked) -> None:
        self._question = question
        self._terms = search.terms
        self._lexemes = search.lexemes
        self._ranked = ranked
        self._excerpter = Excerpter(open_tokenizer(), search.terms.terms)

    def show(self, offset: int, limit: int) -> Page:
        """The hits of one page."""
        ranked, best = self._ranked, self._ranked.best
        assert best is not None
        page = ranked.hits[offset : offset + limit]
        asked = [*page, best]
        known = [ranked.sessions[number] for one in asked for number in (one.shown, one.session)]
        sessions = read_sessions(self._question, known)
        places = [ranked.places[one.chunk] for one in asked if one.chunk is not None]
        wanted = [(ranked.sessions[number], at) for number, at in places]
        messages = iter(read_messages(self._question, wanted, self._lexemes))
        hits = []
        for at, one in enumerate(asked):
            message = None if one.chunk is None else next(messages)
            hit = self._make_hit(sessions[2 * at], sessions[2 * at + 1], message)
            score = round(one.score / best.score, 4)
            hits.append(replace(hit, score=score, similar=len(one.similar - {one.shown}), subagents=one.subagents))
        matched = hits.pop().matched_words
        counted = terms.count_shown(self._terms, [join_shown(hit) for hit in hits])
        weak, share = scoring.is_weak(self._terms, matched, best.strength), scoring.measure_share(self._terms, matched)
        matching = [
            (ranked.sessions[one.session], 0 if one.chunk is None else ranked.places[one.chunk][1]) for one in page
        ]
        there = {place_of(hit): place for hit, place in zip(hits, matching, strict=True)}
        return Page(hits, counted, ranked.total, ranked.is_exact, weak=weak, share=share, there=there)

    def _make_hit(self, about_shown: HubSession, about: HubSession, message: HubMessage | None) -> Hit:
        shown, session = make_session(about_shown), make_session(about)
        heading = _read_heading(about)
        texts = dict[int, str]()
        if message is None:
            hit = self._show_heading(heading, session, shown)
        else:
            text = clean_text(message.text)
            texts[_kind(message)] = text
            hit = make_hit(shown, self._excerpter.excerpt(text), _make_match(session, message))
        matched, missing = self._excerpter.match(texts, heading.values())
        return replace(hit, matched_words=matched, missing_words=missing)

    def _show_heading(self, heading: Mapping[str, str], session: Session, shown: Session) -> Hit:
        column = max(heading, key=lambda one: len(self._excerpter.match({}, [heading[one]])[0]), default="title")
        text = heading.get(column, "")
        if column == "recall_words":  # not for reading
            text = heading.get("summary") or session.name or ""
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
        return make_hit(shown, self._excerpter.excerpt(text), place)


def _kind(message: HubMessage) -> Kind:
    return KINDS.get(message.role, Kind.ASSISTANT) if message.kind == "message" else Kind.CALL


def _read_heading(session: HubSession) -> dict[str, str]:
    """What a session is called and where it worked, by the names of the index's columns."""
    found = {name: session.values[name] for name in FIELDS}
    joined = {name: ", ".join(value) if isinstance(value, list) else value for name, value in found.items()}
    return {name: clean_text(value) for name, value in joined.items() if value}


def _make_match(session: Session, message: HubMessage) -> Match:
    return Match(
        session_id=session.session_id,
        short_id=session.short_id,
        path=session.path,
        kind="message" if message.kind == "message" else "tool_call",
        role=message.as_role,
        tool_name=message.tool,
        msg_idx=message.number,
        entry_id=_line(message.entry),
        timestamp=iso_or_none(message.time_ms),
        undone=message.undone,
    )


def _line(text: str | None) -> str | None:
    return None if text is None else clean_line(text)


def make_session(found: HubSession) -> Session:
    """A session of a hub, as lists show it."""
    values = found.values
    return Session(
        session_id=clean_line(values["session_id"]),
        short_id=clean_line(found.short_id),
        key=clean_line(values["composite_key"]),
        workstation=clean_line(values["workstation_id"]),
        person=clean_line(values["person"]),
        source=clean_line(values["source"]),
        path=clean_line(values["path"] or ""),
        cwd=_line(values["cwd"]),
        project_path=_line(values["project_path"]),
        git_branch=_line(values["git_branch"]),
        name=_line(values["name"]) or None,
        summary=_cut(values["summary"]),
        description=_cut(values["description"]),
        tags=[tag[:LISTED_TAG] for tag in values["tags"][:LISTED_TAGS]],
        created=iso(values["created"] or 0),
        modified=iso(values["modified"] or 0),
        message_count=values["message_count"],
        parent_session_id=_line(values["parent_session_id"]),
        subagent=values["subagent"],
        orphan=values["orphan"],
        gone=values["gone"],
        revision=values["serial"],
        as_of=iso_or_none(values["seen"]),
    )


def find_sessions(conditions: Conditions, limit: int, offset: int, question: Question) -> tuple[int, list[Session]]:
    """How many sessions a hub has, and a page of them, newest activity first."""
    total, known = list_sessions(question, conditions, limit, offset)
    return total, list(map(make_session, read_sessions(question, known)))


def read_tool_counts(text: str) -> dict[str, int]:
    """How often each tool was called, as a machine has written it."""
    try:
        return TOOL_COUNTS.decode(text)
    except msgspec.DecodeError:
        return {}


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:LISTED_CHARACTERS]


# -- two answers as one


def merge_pages(here: Page, there: Page, known: set[str], limit: int, offset: int, *, recent: bool) -> Page:
    """The hits of both, each session once: what is here is shown from here. Scores are compared by how much of the question the best hit
    of each answer has. `known`: keys of sessions that are here, though not on this page."""
    own = {hit.key for hit in here.hits} | known
    others = [hit for hit in there.hits if hit.key not in own]
    best = max(here.share if here.hits else 0.0, there.share if others else 0.0) or 1.0
    scored = [
        *(replace(hit, score=round(hit.score * here.share / best, 4)) for hit in here.hits),
        *(replace(hit, score=round(hit.score * there.share / best, 4)) for hit in others),
    ]
    scored.sort(key=(lambda hit: hit.modified) if recent else (lambda hit: hit.score), reverse=True)
    return Page(
        scored[offset : offset + limit],
        _merge_terms(here.terms, there.terms),
        here.total + there.total - (len(there.hits) - len(others)),
        total_exact=all(page.total_exact and page.total == len(page.hits) for page in (here, there)),
        filtered_out=0 if scored else here.filtered_out + there.filtered_out,
        weak=here.weak and there.weak if here.hits and others else (here if here.hits else there).weak,
        share=best,
        there=there.there,
    )


def _merge_terms(here: terms.Terms, there: terms.Terms) -> terms.Terms:
    """The words of a question, counted in both."""
    of_there = {term.word: term for term in there.terms}
    both = [_add(term, of_there.pop(term.word, None)) for term in here.terms]
    searched = {term.word.text for term in (*both, *of_there.values())}
    return here._replace(
        terms=(*both, *of_there.values()),
        corrected={**there.corrected, **here.corrected},
        dropped=tuple(word for word in here.dropped if word not in searched),
    )


def _add(one: terms.Term, other: terms.Term | None) -> terms.Term:
    if other is None:
        return one
    shift = 1 << 40  # sessions of both are numbered from 0
    titled, placed = (
        mine | {session + shift for session in its} for mine, its in zip(one.headings, other.headings, strict=True)
    )
    headings = terms.Headings(titled, placed)
    return one._replace(chunks=one.chunks + other.chunks, forms=one.forms + other.forms, headings=headings)
