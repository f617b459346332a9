"""An index as plain values: two indexes with the same dump answer everything alike, whatever their row numbers are."""

from collections import Counter
from typing import Any

import apsw
import msgspec

from sesamed.store import sqlite
from sesamed.store.reading import session as read
from sesamed.store.reading.branch import find_branch
from sesamed.store.reading.resolve import find_beginning, find_exact, list_candidates
from sesamed.store.reading.summary import list_children, read_sessions
from sesamed.store.search import filters, ranking, terms
from sesamed.store.upkeep import find_left_over
from tests.support.state_machines import is_night

WORDS = ("alpha", "done boom make", "delta -beta", '"beta gamma" del* alhpa')
FILES = """
    SELECT f.path, f.bad_lines, f.unknown_lines, f.gone_ms IS NOT NULL, f.complete, f.offset, f.skipping, f.loose, f.lines, f.position,
      (SELECT json_group_array(json_array(path, project_path)) FROM (SELECT * FROM directories WHERE file = f.id ORDER BY path)),
      (SELECT json_group_array(json_array(line, reason)) FROM (SELECT line, reason FROM bad_lines WHERE file = f.id ORDER BY line)),
      s.origin FROM files f LEFT JOIN sessions s ON s.id = f.session
"""
PLACE = """
    SELECT place FROM (
      SELECT f.path, r.id AS place FROM files f JOIN records r ON r.id >> 21 = f.id WHERE f.session = ?1 AND r.id = ?2
      UNION ALL SELECT f.path, f.id << 21 | c.position FROM files f JOIN copies c ON c.file = f.id
      WHERE f.session = ?1 AND c.record = ?2) ORDER BY path
"""
HOLDERS = """
    SELECT source, public_id FROM sessions WHERE id <> ?2 AND id IN (
      SELECT session FROM files WHERE id = ?1 >> 21 OR id IN (SELECT file FROM copies WHERE record = ?1)) ORDER BY 1, 2
"""


def dumped(connection: apsw.Connection) -> dict[str, Any]:
    """Everything that can be asked of an index, without its row numbers."""
    for table in ("fts", "headings"):
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('integrity-check', 1)")
    numbers = sqlite.rows(connection, "SELECT id, source, public_id, origin, tool_calls, exchanges FROM sessions")
    openings = dict(sqlite.rows(connection, "SELECT id, opening FROM sessions"))
    names = {number: f"{source}:{public}" for number, source, public, *_ in numbers}
    summary = read_sessions(connection, names, "00000000")
    sql = "SELECT id, summary, description, tags, agent, created_by FROM sessions"
    words = {number: said for number, *said in sqlite.rows(connection, sql)}
    return {
        "sessions": {
            names[number]: {
                **{name: value for name, value in msgspec.to_builtins(summary[number]).items() if name != "revision"},
                "origin": origin, "tool_calls": tool_calls, "exchanges": exchanges,
                "words": words[number], "opening": openings[number],
                "children": sorted(list_children(connection, number)),
                "tools": read.count_tools(connection, number),
                "branches": _branches(connection, number),
                "items": [_item(connection, number, item, names) for item in read.read_items(connection, number, 0, 10_000)],
            } for number, _, _, origin, tool_calls, exchanges in numbers
        },
        "files": {bytes(path): rest for path, *rest in sqlite.rows(connection, FILES)},
        "chunks": Counter((n & 7, sqlite.plain(text)) for n, text in sqlite.rows(connection, "SELECT id, text FROM chunks")),
        "totals": _totals(connection),
        "candidates": _candidates(connection),
        "hits": {words: _hits(connection, words, names) for words in _choose(connection)},
    }  # fmt: skip


def _branches(connection: apsw.Connection, session: int) -> list[object]:
    """What leads to the newest record, and to each of some lines."""
    items = read.read_items(connection, session, 0, 10_000)
    lines = [item.entry for item in items if item.entry][:: 1 if is_night() else 4]
    return [find_branch(connection, session, line).cut(0, 10_000) for line in ("leaf", *lines)]


def _item(connection: apsw.Connection, session: int, item: read.Item, names: dict[int, str]) -> tuple[Any, ...]:
    sql = "SELECT p.tail FROM touched t JOIN paths p ON p.id = t.path WHERE t.place = ? ORDER BY 1"
    place = sqlite.rows(connection, PLACE, (session, item.record))
    touched = [sqlite.rows(connection, sql, (number,)) for (number,) in place]
    owner = sqlite.one(connection, "SELECT session FROM files WHERE id = ?", (item.record >> 21,))[0]
    assert not place or read.find_items(connection, [(session, item.record)]) == {
        (session, item.record): item
    }  # no place: the session goes on from it
    return (
        item.position, item.role, item.kind, item.tool, read.read_whole_text(connection, item.record), item.is_error, item.time_ms,
        item.entry, item.undone, touched, names[owner], len(sqlite.rows(connection, HOLDERS, (item.record, session))),
    )  # fmt: skip


def _totals(connection: apsw.Connection) -> tuple[Any, ...]:
    """The totals, which must be what they count."""
    assert find_left_over(connection) == []
    return sqlite.one(connection, "SELECT chunks, messages, tool_calls FROM totals")


def _choose(connection: apsw.Connection) -> tuple[str, ...]:
    """What is asked: at night everything. By day one thing, since each costs as much as all else of a small index; which one is decided
    by what is counted, which is the same in both of two indexes that are alike."""
    (chunks,) = sqlite.one(connection, "SELECT chunks FROM totals")
    return WORDS if is_night() else (WORDS[chunks % len(WORDS)],)


def _hits(connection: apsw.Connection, words: str, names: dict[int, str]) -> list[tuple[Any, ...]]:
    """Which sessions a search finds, how well, and by which message or call."""
    where = filters.to_sql(filters.Where(empty=True))
    asked = terms.expand(connection, terms.parse(words))
    ranked = ranking.rank_sessions(connection, asked, where, 1000)
    assert (len(ranked.hits), True) == (ranked.total, ranked.is_exact)
    return [
        (
            names[hit.shown], hit.subagents, sorted(names[other] for other in hit.similar), round(hit.score, 6), names[hit.session],
            hit.chunk and (read.find_position(connection, hit.session, hit.chunk >> 3), hit.chunk & 7),
        ) for hit in ranked.hits
    ]  # fmt: skip


def _candidates(connection: apsw.Connection) -> dict[str, list[list[str]]]:
    """What may be meant by ids and by how they begin, in order."""
    ids = {name for (name,) in sqlite.rows(connection, "SELECT public_id FROM sessions")}
    return {
        reference: [list_candidates(connection, find(connection, reference)) for find in (find_exact, find_beginning)]
        for reference in ids | {name[:2] for name in ids}
    }
