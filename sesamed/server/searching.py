"""The search method: a question to hits that explain themselves. Runs in a reader's thread; the store does the ranking."""

from collections.abc import Mapping
from typing import NamedTuple

import apsw
from msgspec.structs import replace

from sesamed.model import SessionSummary
from sesamed.protocol import Hit, Match, WordCount
from sesamed.store import ids
from sesamed.store.reading import messages as read
from sesamed.store.reading import summaries
from sesamed.store.search import filters, headings, ranking
from sesamed.store.search import matching as search
from sesamed.store.search.confidence import is_weak
from sesamed.store.search.excerpt import Excerpt, Excerpter
from sesamed.store.search.folding import Found
from sesamed.store.search.query import Query
from sesamed.store.search.terms import Terms, expanded
from sesamed.times import iso_or_none


class Answered(NamedTuple):
    """What a search found, before freshness is added to it."""

    hits: list[Hit]
    terms: Terms
    filtered_out: int = 0
    weak: bool = False

    @property
    def words(self) -> list[WordCount]:
        """In how many chunks each word stands."""
        return [WordCount(word=term.word.text, chunks=term.chunks) for term in self.terms.terms]


class Searcher:
    """One search."""

    def __init__(self, connection: apsw.Connection, query: Query, where: filters.Compiled, workstation: str) -> None:
        self._connection = connection
        self._query = query
        self._where = where
        self._workstation = workstation
        self._terms = expanded(connection, query)
        self._excerpter = Excerpter(connection, self._terms.terms)

    def run(self, limit: int, offset: int, *, recent: bool) -> Answered:
        """The hits of one page."""
        if self._query.everything:
            _, sessions = summaries.listed(self._connection, self._where, limit, offset, self._workstation)
            return Answered([self._listed(number, summary) for number, summary in sessions], self._terms)
        found = ranking.ranked(self._connection, self._terms, self._where, limit + offset, recent=recent)
        if not found:
            return Answered([], self._terms, 0 if offset else self._filtered_out())
        best = max(found, key=lambda one: one.score)
        hits = [self._hit(one, one.score / best.score) for one in found[offset:]]
        matched = (
            hits[found.index(best) - offset].matched_words
            if best in found[offset:]
            else self._matched(best, self._texts(best))[0]
        )
        return Answered(hits, self._terms, weak=is_weak(self._terms, matched))

    def _filtered_out(self) -> int:
        if not (self._where.session or self._where.record):
            return 0
        return ranking.count(self._connection, self._terms, filters.Compiled("", "", {}))

    def _hit(self, found: Found, score: float) -> Hit:
        known = summaries.by_number(self._connection, {found.shown, found.session}, self._workstation)
        shown, session = known[found.shown], known[found.session]
        others, texts = set[int](), self._texts(found)
        if found.chunk is None:
            hit = self._listed(found.session, session, shown)
        else:
            record = ids.record_of(found.chunk)
            excerpt = self._excerpter.excerpt(texts.get(ids.kind_of(found.chunk), ""))
            hit = _made(shown, score, excerpt, match(session, read.item(self._connection, found.session, record)))
            others = search.others_with(self._connection, record, found.session)
        matched, missing = self._matched(found, texts)
        return replace(
            hit, score=round(score, 4), matched_words=matched, missing_words=missing,
            similar=len((others | found.similar) - {found.shown}), subagents=found.subagents,
        )  # fmt: skip

    def _texts(self, found: Found) -> dict[int, str]:
        """What stands in the best place of a session; nothing where only what it is called matches."""
        return {} if found.chunk is None else read.texts(self._connection, ids.record_of(found.chunk))

    def _matched(self, found: Found, texts: Mapping[int, str]) -> tuple[list[str], list[str]]:
        """Which words stand there, or in what the session is called."""
        return self._excerpter.matched(*texts.values(), *headings.texts(self._connection, found.session))

    def _listed(self, session: int, summary: SessionSummary, shown: SessionSummary | None = None) -> Hit:
        """A hit without a place: the session's first message stands for it."""
        shown = shown or summary
        for item in read.items(self._connection, session, 0, 20):
            if item.kind == ids.Kind.USER and (text := read.whole_text(self._connection, item.record)):
                return _made(shown, 1.0, self._excerpter.excerpt(text), match(summary, item))
        return _made(shown, 1.0, Excerpt("", []), None)


def _made(summary: SessionSummary, score: float, excerpt: Excerpt, place: Match | None) -> Hit:
    return Hit(
        session_id=summary.session_id, key=summary.key, source=summary.source, path=summary.path, cwd=summary.cwd,
        project_path=summary.project_path, git_branch=summary.git_branch, name=summary.name, score=score, created=summary.created,
        modified=summary.modified, message_count=summary.message_count, gone=summary.gone, subagent=summary.subagent,
        parent_session_id=summary.parent_session_id, matched_snippet=excerpt.text, highlights=excerpt.highlights,
        matched_words=[], missing_words=[], match=place, similar=0, subagents=0,
    )  # fmt: skip


def match(summary: SessionSummary, item: read.Item) -> Match:
    """Where in a session something is."""
    return Match(
        session_id=summary.session_id, path=summary.path, kind="tool_call" if item.is_call else "message", role=item.role,
        tool_name=item.tool, msg_idx=item.position, entry_id=item.entry, timestamp=iso_or_none(item.time_ms), undone=item.undone,
    )  # fmt: skip
