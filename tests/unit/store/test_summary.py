"""Which sessions lists show."""

from sesamed.store.reading import summary
from sesamed.store.reading.resolve import find
from sesamed.store.reading.status import read_holdings
from sesamed.store.search import filters
from sesamed.store.search.filters import Where
from tests.support.tiny import session, tiny


def test_empty_sessions_are_shown_when_asked_for() -> None:
    """Nothing was said in them, and nothing is said of them; where they were begun is no reason to show them."""
    wombat = "/home/me/wombat"
    empty, titled = session(1, cwd=wombat), session(2, cwd=wombat).name("A title")
    with tiny(session(0, cwd=wombat).user("alpha"), empty, titled) as index:
        for query_text in ("wombat", "*"):
            assert sorted(index.found(query_text)) == ["s0", "s2"]
            assert sorted(index.found(query_text, empty=True)) == ["s0", "s1", "s2"]
        assert index.ask("wombat", here=False).filtered_out == 2
        assert summary.list_sessions(index.connection, filters.to_sql(Where()), 10, 0, "w")[0] == 2
        assert read_holdings(index.connection).totals.empty == 1
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
        assert read_holdings(index.connection).totals.empty == 0
