"""Hits, and what is said about an answer, wherever it comes from."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from sesamed.hub.words import Known
from sesamed.methods.method import CodePoints
from sesamed.model import Answer, Role, Session
from sesamed.sanitize import Exact, Line, Time
from sesamed.store.search.excerpt import Excerpt
from sesamed.store.search.terms import Terms

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


Place = tuple[str, str | None]  # of a session: its key, and whose it is: of two persons' with one key both may be there


class Page(NamedTuple):
    """A page of hits, and what is known about all of them."""

    hits: list[Hit]
    terms: Terms
    total: int = 0
    total_exact: bool = True
    filtered_out: int = 0
    weak: bool = False
    share: float = 1.0  # of the question that its best hit has
    there: Mapping[Place, tuple[Known, int]] = {}  # of a hub's hits: the session that matches, and where

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

    def tell(self) -> "Told":
        """What whoever asked is told."""
        return Told(
            hits=self.hits,
            words=self.words,
            corrected=dict(self.terms.corrected),
            dropped=list(self.terms.dropped),
            total=self.total,
            total_exact=self.total_exact,
            filtered_out=self.filtered_out,
            weak=self.weak,
        )


class Told(Struct, frozen=True, kw_only=True):
    """What whoever asked is told of a page. It may come from another process."""

    hits: list[Hit]
    words: list[WordCount]
    corrected: dict[str, str]
    dropped: list[str]
    total: int
    total_exact: bool
    filtered_out: int
    weak: bool


def place_of(hit: Hit) -> Place:
    """What tells a hit of an answer from the others."""
    return hit.key, hit.person


def join_shown(hit: Hit) -> str:
    """What of a hit may show a word within a longer one."""
    return f"{hit.matched_snippet}\n{hit.name}\n{hit.cwd}\n{hit.git_branch}"


class Why(NamedTuple):
    """Why something is a hit, and what is shown as one with it."""

    score: float = 1.0
    matched: Sequence[str] = ()
    missing: Sequence[str] = ()
    similar: int = 0
    subagents: int = 0


def make_hit(session: Session, excerpt: Excerpt, place: Match | None, why: Why = Why()) -> Hit:  # noqa: B008 - it is constant
    """A hit."""
    return Hit(
        **asdict(session),
        score=why.score,
        matched_snippet=excerpt.text,
        highlights=excerpt.highlights,
        matched_words=list(why.matched),
        missing_words=list(why.missing),
        match=place,
        similar=why.similar,
        subagents=why.subagents,
    )
