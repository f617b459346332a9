"""The search method: a question to hits that explain themselves. Runs in a reader's thread; the store does the ranking."""

import apsw
from msgspec.structs import replace

from sesamed.model import Kind, SessionSummary
from sesamed.protocol import Hit, Match, WordCount
from sesamed.store import filters, read, summaries
from sesamed.store import search as ranking
from sesamed.store.query import Query
from sesamed.store.search import TIER, Found
from sesamed.store.words import Excerpt, Words


class Answered:
    """What a search found, before freshness is added to it."""

    def __init__(self, hits: list[Hit], words: list[WordCount], filtered_out: int) -> None:
        self.hits = hits
        self.words = words
        self.filtered_out = filtered_out


class Searcher:
    """One search."""

    def __init__(self, connection: apsw.Connection, query: Query, where: filters.Compiled, workstation: str) -> None:
        self._connection = connection
        self._query = query
        self._where = where
        self._workstation = workstation
        self._words = Words(connection, query.words)

    def run(self, limit: int, offset: int, *, recent: bool) -> Answered:
        """The hits of one page."""
        if self._query.everything:
            _, sessions = summaries.listed(self._connection, self._where, limit, offset, self._workstation)
            return Answered([self._listed(number, summary) for number, summary in sessions], [], 0)
        words = [
            WordCount(word=word, chunks=chunks)
            for word, chunks in ranking.chunks_with(self._connection, self._words).items()
        ]
        if self._query.match is None:
            return Answered([], words, 0)
        found = ranking.search(self._connection, self._query, self._where, limit, offset, recent=recent)
        hits = [self._hit(*pair) for pair in self._scored(found)]
        return Answered(hits, words, 0 if hits or offset else self._filtered_out())

    def _filtered_out(self) -> int:
        if not (self._where.session or self._where.record):
            return 0
        return ranking.count(self._connection, self._query, filters.Compiled("", "", {}))

    def _scored(self, found: list[Found]) -> list[tuple[Found, float]]:
        """Scores from 0 to 1 in the order of the hits: a tool call never above a message, however good it is in itself."""
        messages = [hit.best - TIER for hit in found if hit.best >= TIER]
        best = max(messages, default=0.0) or max((hit.best for hit in found), default=0.0)
        ceiling = min(messages, default=best)
        calls = max((hit.best for hit in found if hit.best < TIER), default=0.0)
        scale = min(1.0, ceiling / calls) if calls > 0 else 1.0
        scores = [hit.best - TIER if hit.best >= TIER else hit.best * scale for hit in found]
        return [(hit, round(score / best, 4) if best > 0 else 1.0) for hit, score in zip(found, scores, strict=True)]

    def _hit(self, found: Found, score: float) -> Hit:
        record = found.chunk >> 3
        known = summaries.by_number(self._connection, {found.shown, found.session}, self._workstation)
        texts = read.texts(self._connection, record)
        matched, missing = self._words.matched(*texts.values())
        excerpt = self._words.excerpt(texts.get(found.chunk & 7, ""))
        item = read.item(self._connection, found.session, record)
        others = ranking.others_with(self._connection, record, found.session)
        place = match(known[found.session], item)
        hit = _made(known[found.shown], score, excerpt, place)
        return replace(hit, matched_words=matched, missing_words=missing, similar=others, subagents=found.subagents)

    def _listed(self, session: int, summary: SessionSummary) -> Hit:
        """A hit of a list: the session's first message stands for it."""
        for item in read.items(self._connection, session, 0, 20):
            if item.kind == Kind.USER and (text := read.whole_text(self._connection, item.record)):
                return _made(summary, 1.0, self._words.excerpt(text), match(summary, item))
        return _made(summary, 1.0, Excerpt("", []), None)


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
        tool_name=item.tool, msg_idx=item.position, entry_id=item.entry, timestamp=summaries.iso(item.time_ms), undone=item.undone,
    )  # fmt: skip
