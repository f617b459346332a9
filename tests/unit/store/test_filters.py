"""Filters: each alone and combined, against going through everything by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sesamed import folding
from sesamed.store import sqlite
from sesamed.store.reading import resolve, summary
from sesamed.store.reading import session as read
from sesamed.store.reading.resolve import Project
from sesamed.store.search import filters, ranking, terms
from sesamed.store.search.filters import Where
from tests.support.history import History
from tests.support.sessions import Call, PiSession

SOURCES = ("pi", "other")


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    """A few sessions that share some of what they hold."""
    made = History()
    root = made.roots[0]
    one = PiSession(id="one", cwd="/home/me/p", start="2026-03-01T09:00:00.000Z").user("alpha beta")
    read_call, bash = (
        Call("read", {"path": "src/a.py", "note": "alpha"}, "c1"),
        Call("bash", {"command": "alpha"}, "c2"),
    )
    one.assistant("beta", [read_call, bash]).result(read_call, "alpha gamma").result(bash, "alpha failed", error=True)
    fork = one.fork(id="fork").user("beta gamma").compaction("alpha gamma")
    second = one.fork(id="second", at=2).custom("alpha").assistant("gamma")
    elsewhere = PiSession(id="else", cwd="/home/me/px", start="2026-04-01T09:00:00.000Z").user("alpha")
    elsewhere.tool("read", {"path": "/abs/src/a.py"}, "alpha", error=False).assistant("delta")
    below = (
        PiSession(id="below", cwd="/home/me/p/sub", start="2026-05-01T09:00:00.000Z")
        .user("gamma")
        .bash("alpha", "x", 1)
    )
    agent = PiSession(id="agent", cwd=None, start="2026-05-02T09:00:00.000Z").user("alpha of an agent")
    for session in (one, fork, second, elsewhere, below):
        made.write(root / session.file_name, session.bytes())
    made.write(root / "2026-03-01T09-00-00-000Z_one" / "agent.jsonl", agent.bytes())
    made.look_at_everything()
    made.ingest.writer.connection.execute("UPDATE sessions SET project_path = '/home/me/p' WHERE public_id = 'below'")
    yield made
    made.close()


@pytest.mark.fault(19)
@pytest.mark.parametrize("folds", [True, False])
def test_names_that_the_file_system_takes_for_one(monkeypatch: pytest.MonkeyPatch, folds: bool) -> None:
    """On macOS a directory or a file is found by any spelling of its name; elsewhere each is a name of its own."""
    monkeypatch.setattr(folding, "FOLDS", folds)
    made = History()
    typed, written = "/Users/me/work/caf\u00e9", "/Users/Me/Work/Cafe\u0301"
    for name, cwd in (("in", written), ("below", f"{written}/Sub"), ("beside", f"{written}x"), ("none", None)):
        session = PiSession(id=name, cwd=cwd).user("alpha")
        session.tool("read", {"path": f"{cwd or '/x'}/SRC/A.py"}, "alpha", error=False)
        made.write(made.roots[0] / session.file_name, session.bytes())
    made.look_at_everything()
    connection = made.ingest.writer.connection
    connection.execute("UPDATE sessions SET project_path = ? WHERE public_id = 'none'", (written,))
    found = [
        listed(connection, Where(cwd=typed)),
        listed(connection, Where(cwd=typed, cwd_project=typed)),
        listed(connection, Where(path=f"{typed}/src/a.PY")),
        listed(connection, Where(path="src/a.py")),
        listed(connection, Where(path=f"{typed}/")),
        [name for name in ("in", "none") if is_of(connection, name, Project(typed, typed))],
        listed(connection, Where(cwd="/")),
    ]
    everything = {"in", "below", "beside", "none"}
    all_of_them = [{"in", "below"}, {"in", "below", "none"}, {"in"}, everything, {"in", "below"}, ["in", "none"]]
    assert found == [*(all_of_them if folds else [*([set()] * 5), []]), everything - {"none"}]
    made.close()


def listed(connection: apsw.Connection, where: Where) -> set[str]:
    """The sessions that a list of these filters has."""
    _, found = summary.list_sessions(connection, filters.to_sql(where), 100, 0, "w")
    return {session.session_id for session in found.values()}


def is_of(connection: apsw.Connection, name: str, project: Project) -> bool:
    (number,) = sqlite.one(connection, "SELECT id FROM sessions WHERE public_id = ?", (name,))
    return resolve._is_of(connection, number, project)


def is_at(path: str, wanted: str) -> bool:
    """A file is the wanted one, or below the wanted directory."""
    ends = [path] if not wanted.endswith("/") else []
    ends += [path[:at] for at, character in enumerate(path) if character == "/"]
    wanted = wanted.rstrip("/")
    return any(end == wanted if wanted.startswith("/") else end.endswith("/" + wanted) for end in ends)


def many(*values: str) -> st.SearchStrategy[Any]:
    """None of them, or some."""
    return st.none() | st.lists(st.sampled_from(values), min_size=1, max_size=2).map(tuple)


TIMES = st.none() | st.sampled_from([1_772_355_600_000, 1_772_355_606_000, 1_775_034_000_000, 1_780_000_000_000])
WHERES = st.builds(
    Where,
    cwd=st.none() | st.sampled_from(["/home/me/p", "/home/me/p/", "/home/me", "/home/me/p/sub", "/nowhere"]),
    cwd_project=st.none() | st.just("/home/me/p"), after=TIMES, before=TIMES, source=many(*SOURCES),
    role=many("user", "assistant", "custom", "summary"), tool=many("read", "BASH", "x"),
    tool_family=many("Read", "ba*", "R*", "x*"),
    exclude=many("one", "pi:fork", "else", "other:one"), tools=st.booleans() | st.just(False),
    path=st.none()
    | st.sampled_from(["a.py", "src/a.py", "/home/me/p/src/a.py", "/abs/src/a.py", "b.py", "/src/a.py"])
    | st.sampled_from(["src", "p/src/", "/abs", "/abs/src/", "a.py/"]),
    status=st.none() | st.sampled_from(["success", "error"]), subagents=st.sampled_from(["include", "exclude", "only"]),
    workstation=st.none() | st.sampled_from(["", "0a1b2c3d"]), project=st.none() | st.just("nope"),
)  # fmt: skip


def sessions(connection: apsw.Connection) -> dict[int, dict[str, Any]]:
    """The fields that filters look at."""
    names = (
        "id",
        "source",
        "public_id",
        "cwd",
        "project_path",
        "created_ms",
        "modified_ms",
        "subagent",
        "project",
        "began_ms",
        "parent_id",
    )
    rows = sqlite.rows(connection, f"SELECT {', '.join(names)} FROM sessions")
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def session_passes(where: Where, session: dict[str, Any]) -> bool:
    """By hand."""
    cwd = (where.cwd or "").rstrip("/")
    below = session["cwd"] is not None and (session["cwd"] + "/").startswith(cwd + "/")
    names = (session["public_id"], f"{session['source']}:{session['public_id']}")
    return all(
        (
            where.cwd is None
            or below
            or (where.cwd_project is not None and session["project_path"] == where.cwd_project),
            where.after is None or session["modified_ms"] >= where.after,
            where.before is None or session["created_ms"] < where.before,
            where.source is None or session["source"] in where.source,
            where.exclude is None or not set(names) & set(where.exclude),
            where.exclude is None or not (session["subagent"] and session["parent_id"] in where.exclude),
            where.subagents == "include" or bool(session["subagent"]) == (where.subagents == "only"),
            where.workstation in (None, ""),
            where.project is None or session["project"] == where.project,
        )
    )


def is_one_of(tool: str, where: Where) -> bool:
    """A tool is named in any case, or is one of a family."""
    exact = [name.lower() for name in where.tool or ()]
    whole = [name.lower() for name in where.tool_family or () if name[-1] != "*"]
    begins = tuple(name[:-1].lower() for name in where.tool_family or () if name[-1] == "*")
    return tool.lower() in (*exact, *whole) or tool.lower().startswith(begins)


def record_passes(connection: apsw.Connection, where: Where, record: int) -> bool:
    """By hand, too."""
    role, kind, tool, is_error = sqlite.one(
        connection, "SELECT role, kind, tool, is_error FROM records WHERE id = ?", (record,)
    )
    places = [record] + [
        r for (r,) in sqlite.rows(connection, "SELECT file << 21 | position FROM copies WHERE record = ?", (record,))
    ]
    tails = [
        t
        for p in places
        for (t,) in sqlite.rows(connection, "SELECT tail FROM touched JOIN paths ON id = path WHERE place = ?", (p,))
    ]
    paths = ["/" + "/".join(reversed(tail.strip("/").split("/"))) for tail in tails]
    return all(
        (
            where.role is None or (kind != 4 and role in where.role),
            (where.tool is None and where.tool_family is None) or (kind == 4 and is_one_of(tool, where)),
            not where.tools or kind == 4,
            where.status is None or (kind == 4 and is_error == (where.status == "error")),
            where.path is None or any(is_at(path, where.path) for path in paths),
        )
    )


def shown(about: dict[int, dict[str, Any]], session: int) -> int:
    """A subagent's work is shown as its parent's."""
    if not about[session]["subagent"]:
        return session
    return next(number for number, other in about.items() if other["public_id"] == about[session]["parent_id"])


def holders(connection: apsw.Connection, record: int) -> list[int]:
    """The sessions that hold a record, the earliest created first."""
    files = [record >> 21] + [
        f for (f,) in sqlite.rows(connection, "SELECT file FROM copies WHERE record = ?", (record,))
    ]
    found = {
        session for f in files for (session,) in sqlite.rows(connection, "SELECT session FROM files WHERE id = ?", (f,))
    }
    about = sessions(connection)
    return sorted(found, key=lambda s: (about[s]["created_ms"], about[s]["began_ms"], about[s]["public_id"]))


@settings(suppress_health_check=list(HealthCheck))
@given(WHERES, st.sampled_from(["alpha", "beta", "gamma", "alpha gamma", "delta"]))
def test_a_search_finds_what_passes(history: History, where: Where, words: str) -> None:
    """A hit belongs to the earliest created of the sessions that hold it and pass."""
    connection = history.ingest.writer.connection
    asked, about = terms.expand(connection, terms.parse(words)), sessions(connection)
    expected = set()
    for (chunk,) in sqlite.rows(connection, "SELECT rowid FROM fts WHERE fts MATCH ?", (words.replace(" ", " OR "),)):
        passing = [s for s in holders(connection, chunk >> 3) if session_passes(where, about[s])]
        if passing and record_passes(connection, where, chunk >> 3):
            expected.add(passing[0])
    found = ranking.rank_sessions(connection, asked, filters.to_sql(where), 100).hits
    to_show = {shown(about, session) if where.subagents == "include" else session for session in expected}
    assert {session for hit in found for session in (hit.shown, *hit.similar)} == to_show
    assert ranking.count_hits(connection, asked, filters.to_sql(where)) == len(found)
    for hit in found:
        assert hit.chunk is not None
        assert record_passes(connection, where, hit.chunk >> 3)
        assert hit.session in holders(connection, hit.chunk >> 3)
        place = hit.session, hit.chunk >> 3
        assert read.find_items(connection, [place])[place].record == hit.chunk >> 3


@settings(suppress_health_check=list(HealthCheck))
@given(WHERES)
def test_a_list_has_what_passes(history: History, where: Where) -> None:
    """A session is listed when it passes and one of its records does; copies are its records as well."""
    connection = history.ingest.writer.connection
    about = sessions(connection)
    narrow = any((where.role, where.tool, where.tool_family, where.tools, where.path, where.status))
    records = [
        record
        for (record,) in sqlite.rows(connection, "SELECT id FROM records")
        if record_passes(connection, where, record)
    ]
    with_record = {session for record in records for session in holders(connection, record)}
    expected = {s for s in about if session_passes(where, about[s]) and (not narrow or s in with_record)}
    if where.subagents == "include":
        expected = {s for s in expected if shown(about, s) == s or shown(about, s) not in expected}
    total, listed = summary.list_sessions(connection, filters.to_sql(where), 100, 0, "w")
    assert set(listed) == expected
    assert total == len(expected)


def test_a_subagent_that_names_no_parent_stays() -> None:
    """As some of Codex's don't: whatever is excluded, it is not that one's."""
    made = History()
    for name in ("one", "agent"):
        made.write(made.roots[0] / f"{name}.jsonl", PiSession(id=name).user(f"{name} speaks").bytes())
    made.look_at_everything()
    connection = made.ingest.writer.connection
    connection.execute("UPDATE sessions SET subagent = 1, parent_id = NULL WHERE public_id = 'agent'")
    assert listed(connection, Where(exclude=("one",))) == {"agent"}
    assert listed(connection, Where(exclude=("agent",))) == {"one"}
    made.close()


def test_a_hit_of_a_shared_record_goes_to_the_earliest_that_remains(history: History) -> None:
    """`one` owns it; without `one` it is not lost."""
    connection = history.ingest.writer.connection
    names = {number: about["public_id"] for number, about in sessions(connection).items()}
    hits, failed = [], terms.expand(connection, terms.parse("failed"))
    for exclude in ((), ("one",), ("one", "fork"), ("one", "second")):
        where = filters.to_sql(Where(exclude=exclude or None, tool=("bash",)))
        hits.append([names[hit.session] for hit in ranking.rank_sessions(connection, failed, where, 10).hits])
    assert hits == [["one"], ["fork"], ["second"], ["fork"]]


def test_a_shorter_search_is_the_beginning_of_a_longer_one(history: History) -> None:
    """In one order, however many are asked for."""
    connection, where = history.ingest.writer.connection, filters.to_sql(Where())
    asked = terms.expand(connection, terms.parse("alpha gamma"))
    for recent in (False, True):
        whole = ranking.rank_sessions(connection, asked, where, 100, recent=recent).hits
        for limit in range(len(whole) + 1):
            assert ranking.rank_sessions(connection, asked, where, limit, recent=recent).hits == whole[:limit]


def test_the_reader_of_a_session_gets_pages_of_it(history: History, tmp_path: Path) -> None:
    """From anywhere, as many as are there."""
    connection = history.ingest.writer.connection
    for number in sessions(connection):
        whole = read.read_items(connection, number, 0, 1000)
        assert [item.position for item in whole] == list(range(len(whole)))
        for first in range(len(whole) + 1):
            assert read.read_items(connection, number, first, 2) == whole[first : first + 2]
        assert [read.find_position(connection, number, item.record) for item in whole] == [
            item.position for item in whole
        ]
