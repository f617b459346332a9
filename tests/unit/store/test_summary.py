"""Which sessions lists show."""

import pytest

from sesamed.errors import NotFoundError
from sesamed.store.reading import summary
from sesamed.store.reading.resolve import find, resolve
from sesamed.store.reading.summary import read_holdings
from sesamed.store.search import filters
from sesamed.store.search.filters import Where
from tests.support.tiny import session, tiny


def test_empty_sessions_are_shown_when_asked_for() -> None:
    """Nothing was said in them, and nothing is said of them; where they were begun is no reason to show them. One that an agent gave a
    title is listed, but is no answer to a question."""
    wombat = "/home/me/wombat"
    empty, titled = session(1, cwd=wombat), session(2, cwd=wombat).name("A title")
    with tiny(session(0, cwd=wombat).user("alpha"), empty, titled) as index:
        for query_text, shown in (("wombat", ["s0"]), ("title", []), ("*", ["s0", "s2"])):
            assert sorted(index.found(query_text)) == shown
        for query_text, shown in (("wombat", ["s0", "s1", "s2"]), ("title", ["s2"]), ("*", ["s0", "s1", "s2"])):
            assert sorted(index.found(query_text, empty=True)) == shown
        assert index.ask("wombat", workstation="0a1b2c3d").filtered_out == 1
        assert summary.list_sessions(index.connection, filters.to_sql(Where()), 10, 0, "w")[0] == 2
        assert read_holdings(index.connection).counts.empty == 1
        assert find(index.connection, "s1")


def test_a_session_for_which_a_subagent_works_is_not_empty() -> None:
    """Its own words are missing, but not its work."""
    with tiny(session(0)) as index:
        within = index.history.roots[0] / session(0).file_name.removesuffix(".jsonl")
        index.history.write(within / "agent.jsonl", session(1).user("alpha").bytes())
        index.history.look_at_everything()
        (hit,) = index.ask("alpha").hits
        assert (hit.session_id, hit.subagents, hit.message_count) == ("s0", 1, 0)
        assert index.found("*") == ["s0"]
        assert read_holdings(index.connection).counts.empty == 0


def test_a_subagent_that_did_nothing_is_no_child() -> None:
    """Claude Code warms up several for each session; they are in no other answer either."""
    with tiny(session(0).user("beta")) as index:
        within = index.history.roots[0] / session(0).file_name.removesuffix(".jsonl")
        index.history.write(within / "a.jsonl", session(1).bytes())
        index.history.write(within / "b.jsonl", session(2).user("alpha").bytes())
        index.history.look_at_everything()
        number = find(index.connection, "s0")
        assert summary.list_children(index.connection, number) == ["s2"]


def test_subagents_of_a_parent_that_is_not_indexed_are_one() -> None:
    """For each such parent; they are marked, and say whose they are."""
    with tiny(session(0).user("beta")) as index:
        root = index.history.roots[0]
        for number, (parent, start) in enumerate([("lost", 2), ("lost", 4), ("lost", 3), ("gone", 5)], 1):
            agent = session(number, cwd=f"/{number}", start=f"2026-03-0{start}T09:00:00.000Z").user(f"alpha {number}")
            index.history.write(root / f"2026-03-01T09-00-00-000Z_{parent}/{agent.file_name}", agent.bytes())
        index.history.look_at_everything()
        gone, lost = sorted(index.ask("alpha").hits, key=lambda hit: str(hit.parent_session_id))
        assert (gone.session_id, gone.parent_session_id, gone.orphan, gone.subagents) == ("s4", "gone", True, 0)
        assert (lost.parent_session_id, lost.orphan, lost.subagents) == ("lost", True, 2)
        assert index.ask("alpha", limit=1, offset=1).hits[0] in (gone, lost)
        assert index.found("*") == ["s4", "s2", "s0"]
        total, listed = summary.list_sessions(index.connection, filters.to_sql(Where()), 10, 0, "w")
        assert (total, [(one.session_id, one.orphan) for one in listed.values()]) == (
            3,
            [("s4", True), ("s2", True), ("s0", False)],
        )
        assert sorted(index.found("*", subagents="only")) == ["s1", "s2", "s3", "s4"]
        with pytest.raises(NotFoundError, match="its subagents are: 's2', 's3', 's1'"):
            find(index.connection, "lost")


def test_subagents_that_work_for_each_other_are_listed() -> None:
    """Each of them, as none is above the others; whoever works for one of them is listed as that one. And no way up leads round."""
    with tiny(session(0).user("beta")) as index:
        root = index.history.roots[0]
        for number, parent in ((1, 2), (2, 3), (3, 1), (4, 1), (5, 5)):
            agent = session(number).user(f"alpha {number}")
            index.history.write(root / f"2026-03-01T09-00-00-000Z_s{parent}/{agent.file_name}", agent.bytes())
        index.history.look_at_everything()
        listed = summary.list_sessions(index.connection, filters.to_sql(Where()), 10, 0, "w")[1]
        assert sorted(one.session_id for one in listed.values()) == ["s0", "s1", "s2", "s3", "s5"]
        assert resolve(index.connection, "s1~2", None) == find(index.connection, "s3")
        for reference, there in (("s1~3", 2), ("s1~5", 2), ("s4~9", 3), ("s5~1", 0)):
            with pytest.raises(NotFoundError, match=f"has {there} indexed ancestors"):
                resolve(index.connection, reference, None)
