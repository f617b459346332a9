"""The hub's tables in a real PostgreSQL: steps, rights, and the view that other programs read."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from sesamed.config import Hub
from sesamed.errors import HubError
from sesamed.hub import server
from sesamed.hub.migrations import MIGRATIONS, VERSION
from tests.support.postgres import HubDatabase, needs_postgres, run

pytestmark = needs_postgres
TABLES = (
    "hub_members", "hub_messages", "hub_removed", "hub_sessions", "hub_shares", "hub_teams", "hub_totals", "hub_vectors", "hub_word_counts",
    "hub_workstations",
)  # fmt: skip
SESSIONS = """
    INSERT INTO sesame.hub_sessions(workstation_id, composite_key, project, team, project_id, session_id, source, project_path,
      subagent, gone, tags, recall_words, message_count, total, exchange_count, tool_counts, language, heading, digest, pass, serial,
      file_mtime, last_msg_at)
    SELECT %(workstation)s, %(workstation)s || ':11111111:' || name, %(project)s, %(team)s, '11111111', name, 'pi', '/work',
      false, false, '{}', '{}', 0, 0, 1, '{"bash": 2}', 'english', to_tsvector('english', name), 1, 1, 1,
      1772355600, '2026-03-01 09:00:00Z'
    FROM unnest(%(names)s::text[]) name
"""
MESSAGES = """
    INSERT INTO sesame.hub_messages(workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, undone, text, subwords,
      words, bytes, language, digest, serial)
    SELECT %(workstation)s, %(key)s, n - 1, %(project)s, %(team)s, n, CASE n %% 2 WHEN 1 THEN 'user' ELSE 'assistant' END, 'message', false,
      text, '', 3, octet_length(text), 'english', n, 1
    FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS said(text, n)
"""
VECTORS = """
    INSERT INTO sesame.hub_vectors(workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, words, vector)
    SELECT workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, words, sesame.hub_vector(language, text, subwords)
    FROM sesame.hub_messages WHERE owner = session_user AND composite_key = %(key)s
"""
# As the seed has it, with the placeholders of psycopg.
SEED = """
    SELECT *, ts_rank(to_tsvector('english', content),
                      websearch_to_tsquery('english', %s)) AS rank
    FROM indexed_sessions
    WHERE to_tsvector('english', content) @@ websearch_to_tsquery('english', %s)
      AND workstation_id = %s
      AND project_id = %s
    ORDER BY rank DESC
    LIMIT %s
"""


@pytest.fixture
def hub(hub_database: HubDatabase) -> HubDatabase:
    """A hub whose tables were made by a role that is no superuser."""
    with hub_database.connect("keeper") as connection:
        assert server.migrate(connection) == list(range(1, VERSION + 1))
    return hub_database


def put(
    hub: HubDatabase,
    person: str,
    session: str,
    texts: list[str],
    *,
    project: str = "github.com/acme/x",
    team: str = "",
    searched: bool = True,
) -> str:
    """A session of a person's, with these messages in turn of the person and the model; gives its key."""
    workstation = "aaaaaaaa"
    values: dict[str, Any] = {
        "workstation": workstation,
        "project": project,
        "team": team,
        "names": [session],
        "texts": texts,
    }
    values["key"] = f"{workstation}:11111111:{session}"
    with hub.connect(person) as connection:
        for statement in (SESSIONS, MESSAGES, *([VECTORS] if searched else [])):
            connection.execute(statement, values)
    return str(values["key"])


def see(hub: HubDatabase, person: str, table: str, query: str = "plum") -> list[str]:
    """The keys of what a person is shown of a table, when they ask for a word."""
    with hub.connect(person) as connection:
        connection.execute("SELECT set_config('sesame.query', %s, false)", (f"'{query}'",))
        return [key for (key,) in run(connection, f"SELECT DISTINCT composite_key FROM sesame.{table} ORDER BY 1")]


# -- steps


def test_two_who_make_the_tables_at_once_make_them_once(hub_database: HubDatabase) -> None:
    """The second one waits, and finds that all is done."""
    done: list[list[int]] = []

    def migrate() -> None:
        with hub_database.connect("keeper") as connection:
            done.append(server.migrate(connection))

    threads = [threading.Thread(target=migrate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [[], [], list(range(1, VERSION + 1))]


def test_who_may_not_make_tables_is_told_whom_to_ask(hub_database: HubDatabase) -> None:
    with hub_database.connect("anna") as connection, pytest.raises(HubError, match="ask the owner") as refused:
        server.migrate(connection)
    assert refused.value.cause == "rights"


@pytest.mark.fault(127)
def test_a_hub_without_tables_says_what_makes_them(hub_database: HubDatabase) -> None:
    with hub_database.connect("anna") as connection, pytest.raises(HubError, match="sesamectl hub init") as refused:
        server.check_schema(connection)
    assert refused.value.cause == "empty"


def test_what_is_printed_makes_a_hub_that_works(hub_database: HubDatabase) -> None:
    """For whoever keeps the database; the steps are noted, as if `init` had made them."""
    hub_database.dsn("anna")
    with hub_database.connect("keeper") as keeper:
        run(keeper, server.print_statements(hub_database.role("anna")))
        assert server.migrate(keeper) == []
    with hub_database.connect("anna") as anna:
        assert server.check_schema(anna) == VERSION


@pytest.mark.fault(127)
@pytest.mark.parametrize(("oldest_client", "works"), [(VERSION, True), (VERSION + 1, False)])
def test_a_newer_schema_says_whether_it_still_works(hub: HubDatabase, oldest_client: int, works: bool) -> None:
    """Somebody's newer sesame has added a step: it knows which clients can live with that."""
    with hub.connect("keeper") as connection:
        statement = "INSERT INTO sesame.hub_schema(version, oldest_client, grantee) VALUES(%s, %s, 'PUBLIC')"
        connection.execute(statement, (VERSION + 1, oldest_client))
        assert server.migrate(connection) == []  # nor are its tables changed by us
    with hub.connect("anna") as connection:
        if works:
            assert server.check_schema(connection) == VERSION + 1
            return
        with pytest.raises(HubError, match="upgrade sesame here") as refused:
            server.check_schema(connection)
        assert refused.value.cause == "newer"


OLD_COUNTS = """
    INSERT INTO sesame.hub_word_counts(workstation_id, project, team, word, messages)
    SELECT %s, project, team, word, messages FROM (VALUES
      ('/p', '', 'plum', 3), ('/q', '', 'plum', 4), ('/q', '', 'gone', 0), ('/s', 'core', 'plum', 5), ('/t', 'core', 'plum', 6)
    ) AS counted(project, team, word, messages)
"""
OLD_TOTALS = """
    INSERT INTO sesame.hub_totals(workstation_id, project, team, messages, words)
    VALUES(%(own)s, '/p', '', 10, 100), (%(own)s, '/q', '', 20, 200), (%(own)s, '/s', 'core', 30, 300)
"""


@pytest.mark.fault(127)
def test_counts_of_the_first_schema_are_counted_as_they_are_now(
    hub_database: HubDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody's, by whoever keeps the tables, who still sees none of them; whom it is granted to stays. Who is older or newer is told."""
    with monkeypatch.context() as first, hub_database.connect("keeper") as keeper:
        first.setattr(server, "MIGRATIONS", MIGRATIONS[:1])
        first.setattr(server, "VERSION", 1)
        assert server.migrate(keeper) == [1]
    for person, own in (("anna", "aaaaaaaa"), ("bert", "bbbbbbbb")):
        with hub_database.connect(person) as connection:
            run(connection, OLD_COUNTS, own)
            connection.execute(OLD_TOTALS, {"own": own})
            with pytest.raises(HubError, match="too old for this sesame; run `sesamectl hub init`"):
                server.check_schema(connection)
    with hub_database.connect("keeper") as keeper:
        assert server.migrate(keeper) == [2]
        with pytest.raises(HubError, match="upgrade sesame here"):
            server.check_schema(keeper, 1)
        for table in ("hub_word_counts", "hub_totals"):
            assert run(keeper, f"SELECT * FROM sesame.{table}") == []
    for person, own in (("anna", "aaaaaaaa"), ("bert", "bbbbbbbb")):
        with hub_database.connect(person) as connection:
            counts = "SELECT workstation_id, project, team, word, messages FROM sesame.hub_word_counts ORDER BY 2"
            expected = [("", "", "plum", 7), ("/s", "core", "plum", 5), ("/t", "core", "plum", 6)]
            assert run(connection, counts) == [(own, *row) for row in expected]
            totals = "SELECT workstation_id, project, team, messages, words FROM sesame.hub_totals ORDER BY 2"
            assert run(connection, totals) == [(own, "", "", 30, 300), (own, "/s", "core", 30, 300)]


def test_only_whom_it_is_granted_to_may_use_a_hub(hub_database: HubDatabase) -> None:
    hub_database.dsn("anna")
    with hub_database.connect("keeper") as connection:
        server.migrate(connection, hub_database.role("anna"))
    assert see(hub_database, "anna", "hub_sessions") == []
    with hub_database.connect("bert") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(connection, "SELECT * FROM sesame.hub_sessions")


# -- isolation


def test_row_level_security_is_forced_on_every_table(hub: HubDatabase) -> None:
    """Also on partitions, which nobody may ask by their own names; and whatever somebody ships begins with who and where."""
    with hub.connect("keeper") as connection:
        tables = run(
            connection,
            """SELECT relname, relrowsecurity AND relforcerowsecurity, relispartition,
                (SELECT count(*) FROM pg_policy WHERE polrelid = c.oid) FROM pg_class c
              WHERE relnamespace = 'sesame'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'hub_schema' ORDER BY relname""",
        )
        assert tuple(name for name, _, is_partition, _ in tables if not is_partition) == TABLES
        for name, is_forced, is_partition, policies in tables:
            assert is_forced, name
            assert policies == (0 if is_partition else 4), name
        keys = run(
            connection,
            """SELECT conrelid::regclass::text, (SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute
                WHERE attrelid = conrelid AND attnum = ANY(conkey)) FROM pg_constraint
              WHERE contype = 'p' AND conparentid = 0 AND connamespace = 'sesame'::regnamespace""",
        )
    for name, columns in keys:
        if name.rpartition(".")[2] not in {"hub_schema", "hub_teams", "hub_members"}:
            assert {"owner", "workstation_id"} <= set(columns), name


SHIPPED = ("hub_sessions", "hub_messages", "hub_vectors", "indexed_sessions")
ATTACKS = (
    "INSERT INTO sesame.hub_removed(owner, workstation_id, composite_key, project, team, serial) VALUES('{anna}', 'a', 'k', 'p', '', 1)",
    "INSERT INTO sesame.hub_shares(owner, workstation_id, project, team) VALUES('{anna}', 'aaaaaaaa', 'github.com/acme/x', 'core')",
    "INSERT INTO sesame.hub_shares(workstation_id, project, team) VALUES('aaaaaaaa', 'github.com/acme/x', 'core')",
    "INSERT INTO sesame.hub_members(team, owner, member) VALUES('core', '{anna}', '{bert}')",
    "INSERT INTO sesame.hub_members(team, owner, member) VALUES('core', '{bert}', '{bert}')",
    "INSERT INTO sesame.hub_teams(team, owner) VALUES('mine', '{anna}')",
    "UPDATE sesame.hub_members SET team = 'core'",
    "UPDATE sesame.hub_messages SET owner = '{anna}' WHERE owner = session_user",
    "SELECT * FROM sesame.hub_messages_0",
    "SELECT * FROM sesame.hub_vectors_0",
    "TRUNCATE sesame.hub_messages",
    "ALTER TABLE sesame.hub_sessions DISABLE ROW LEVEL SECURITY",
    "DROP POLICY sees ON sesame.hub_sessions",
    "SET ROLE {anna}",
    "SET SESSION AUTHORIZATION {anna}",
    "CREATE FUNCTION sesame.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TRIGGER t BEFORE INSERT ON sesame.hub_messages EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "INSERT INTO sesame.hub_schema(version, oldest_client, grantee) VALUES(99, 99, '')",
    "COPY sesame.hub_sessions TO '/tmp/x'",
)
QUIET_ATTACKS = (  # which are carried out on nothing
    "DELETE FROM sesame.hub_sessions",
    "DELETE FROM sesame.hub_messages",
    "DELETE FROM sesame.hub_vectors",
    "UPDATE sesame.hub_sessions SET project = 'x'",
    "UPDATE sesame.hub_messages SET text = 'x'",
    "UPDATE sesame.hub_vectors SET team = 'x'",
    "DELETE FROM sesame.hub_workstations",
    "DELETE FROM sesame.hub_teams",
    "DELETE FROM sesame.hub_members",
    "UPDATE sesame.hub_members SET accepted = true",
    "DELETE FROM sesame.hub_word_counts",
)


@pytest.mark.fault(132)
def test_a_person_who_tries_everything_gets_nothing(hub: HubDatabase) -> None:
    """Anna has a session and a team, Bert has a role."""
    put(hub, "anna", "secret", ["a plum", "two plums"], team="core")
    with hub.connect("anna") as anna:
        run(anna, "INSERT INTO sesame.hub_teams(team) VALUES('core')")
        run(anna, "INSERT INTO sesame.hub_members(team, member, accepted) VALUES('core', session_user, true)")
        run(
            anna,
            "INSERT INTO sesame.hub_shares(workstation_id, project, team) VALUES('aaaaaaaa', 'github.com/acme/x', 'core')",
        )
        run(
            anna,
            "INSERT INTO sesame.hub_word_counts(workstation_id, project, team, word, messages) VALUES('a', 'p', 'core', 'w', 1)",
        )
        before = {table: run(anna, f"SELECT * FROM sesame.{table}") for table in TABLES}
    names = {"anna": hub.role("anna"), "bert": hub.role("bert")}
    with hub.connect("bert") as bert:
        run(bert, "SELECT set_config('sesame.query', '''plum''', false)")
        for table in (*TABLES, "indexed_sessions"):
            assert run(bert, f"SELECT * FROM sesame.{table}") == [], table
    put(hub, "bert", "own", ["a plum"])
    with hub.connect("bert") as bert:
        for attack in ATTACKS:
            with pytest.raises(psycopg.Error):
                run(bert, attack.format(**names))
        for attack in QUIET_ATTACKS:
            run(bert, attack)
        with bert.cursor() as cursor, cursor.copy("COPY sesame.hub_messages TO STDOUT") as copy:
            assert list(copy) == []
    with hub.connect("anna") as anna:
        assert {table: run(anna, f"SELECT * FROM sesame.{table}") for table in TABLES} == before
    assert all(see(hub, "anna", table) == ["aaaaaaaa:11111111:secret"] for table in SHIPPED)


ODD_QUERIES = (
    "plum' | 'x", "'plum' OR true", "') OR true --", "'plum':*", "!'nothing'", "$1", "'\\''", "x\\0y", "", " ", "!!", "'p':*", "{}",
)  # fmt: skip


@pytest.mark.fault(132)
def test_what_is_asked_shows_nobody_elses_rows(hub: HubDatabase) -> None:
    """It is one value of the type tsquery, or an error."""
    put(hub, "anna", "secret", ["a plum"])
    with hub.connect("bert") as bert:
        for query in ODD_QUERIES:
            bert.execute("SELECT set_config('sesame.query', %s, false)", (query,))
            try:
                assert run(bert, "SELECT * FROM sesame.hub_vectors") == [], query
            except psycopg.errors.SyntaxError as error:
                assert "tsquery" in str(error)  # noqa: PT017


def test_a_function_of_somebodys_is_not_asked_before_the_policy(hub: HubDatabase) -> None:
    """One that tells what it is given, and costs nothing, so that a planner would ask it first."""
    put(hub, "anna", "secret", ["a plum"])
    put(hub, "bert", "own", ["a plum"])
    with hub.connect("bert") as bert:
        told: list[str] = []
        bert.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        run(
            bert,
            "CREATE FUNCTION pg_temp.tell(value text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
            "$$ BEGIN RAISE NOTICE '%', value; RETURN true; END $$".replace("%", "%"),
        )
        run(bert, "SELECT set_config('sesame.query', '''plum''', false)")
        for table in SHIPPED:
            run(bert, f"SELECT 1 FROM sesame.{table} t WHERE pg_temp.tell(t.composite_key)")
    assert set(told) == {"aaaaaaaa:11111111:own"}


def share(hub: HubDatabase, *, accepts: bool = True) -> None:
    """Anna makes a team with Bert in it, and shares her project with it."""
    bert = hub.role("bert")
    hub.dsn("bert")
    with hub.connect("anna") as anna:
        run(anna, "INSERT INTO sesame.hub_teams(team) VALUES('core')")
        run(anna, "INSERT INTO sesame.hub_members(team, member, accepted) VALUES('core', session_user, true)")
        run(anna, "INSERT INTO sesame.hub_members(team, member) VALUES('core', %s)", bert)
        run(
            anna,
            "INSERT INTO sesame.hub_shares(workstation_id, project, team) VALUES('aaaaaaaa', 'github.com/acme/x', 'core')",
        )
    if accepts:
        with hub.connect("bert") as connection:
            run(connection, "UPDATE sesame.hub_members SET accepted = true WHERE team = 'core'")


@pytest.mark.fault(132)
def test_a_team_sees_what_is_shared_with_it_and_nothing_else(hub: HubDatabase) -> None:
    shared = put(hub, "anna", "shared", ["a plum"], team="core")
    put(hub, "anna", "private", ["a plum"], project="github.com/acme/y", team="core")
    put(hub, "anna", "other-team", ["a plum"], team="other")
    share(hub, accepts=False)
    assert all(see(hub, "bert", table) == [] for table in SHIPPED)  # nobody is shown what they did not ask for
    with hub.connect("bert") as bert:
        run(bert, "UPDATE sesame.hub_members SET accepted = true WHERE team = 'core'")
    assert all(see(hub, "bert", table) == [shared] for table in SHIPPED)
    assert all(see(hub, "carl", table) == [] for table in SHIPPED)
    with hub.connect("bert") as bert:
        for attack in QUIET_ATTACKS:
            if "members" not in attack:
                run(bert, attack)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(bert, "UPDATE sesame.hub_members SET member = 'x'")
    assert all(shared in see(hub, "anna", table) for table in SHIPPED)
    with hub.connect("anna") as anna:
        run(anna, "DELETE FROM sesame.hub_shares")
    assert all(see(hub, "bert", table) == [] for table in SHIPPED)


def test_who_is_no_longer_in_a_team_sees_nothing_of_it(hub: HubDatabase) -> None:
    put(hub, "anna", "shared", ["a plum"], team="core")
    share(hub)
    assert see(hub, "bert", "hub_sessions")
    with hub.connect("anna") as anna:
        run(anna, "DELETE FROM sesame.hub_members WHERE member <> session_user")
    assert all(see(hub, "bert", table) == [] for table in SHIPPED)


def test_a_share_cannot_be_moved_to_a_team_of_others(hub: HubDatabase) -> None:
    """Or anybody could plant sessions where a team looks, and where it follows."""
    shared = put(hub, "anna", "shared", ["a plum"], team="core")
    share(hub)
    put(hub, "carl", "planted", ["a plum"], team="core")
    with hub.connect("carl") as carl:
        run(carl, "INSERT INTO sesame.hub_teams(team) VALUES('mine')")
        run(carl, "INSERT INTO sesame.hub_members(team, member, accepted) VALUES('mine', session_user, true)")
        run(
            carl,
            "INSERT INTO sesame.hub_shares(workstation_id, project, team) VALUES('aaaaaaaa', 'github.com/acme/x', 'mine')",
        )
        with pytest.raises(psycopg.Error):
            run(carl, "UPDATE sesame.hub_shares SET team = 'core'")
    assert all(see(hub, "anna", table) == [shared] for table in SHIPPED)


def test_a_team_that_is_made_anew_by_somebody_else_is_shown_nothing(hub: HubDatabase) -> None:
    """What was shared with the old one was shared with those who were in it."""
    put(hub, "anna", "shared", ["a plum"], team="core")
    share(hub)
    with hub.connect("anna") as anna:
        run(anna, "DELETE FROM sesame.hub_teams WHERE team = 'core'")
    with hub.connect("carl") as carl:
        run(carl, "INSERT INTO sesame.hub_teams(team) VALUES('core')")
        run(carl, "INSERT INTO sesame.hub_members(team, member, accepted) VALUES('core', session_user, true)")
    assert all(see(hub, "carl", table) == [] for table in SHIPPED)
    assert all(see(hub, "bert", table) == [] for table in SHIPPED)


def test_who_was_put_out_of_a_team_shows_it_nothing_more(hub: HubDatabase) -> None:
    share(hub)
    put(hub, "bert", "planted", ["a plum"], team="core")
    with hub.connect("bert") as bert:
        run(
            bert,
            "INSERT INTO sesame.hub_shares(workstation_id, project, team) VALUES('aaaaaaaa', 'github.com/acme/x', 'core')",
        )
    assert see(hub, "anna", "hub_sessions") == ["aaaaaaaa:11111111:planted"]
    with hub.connect("anna") as anna:
        run(anna, "DELETE FROM sesame.hub_members WHERE member <> session_user")
    assert all(see(hub, "anna", table) == [] for table in SHIPPED)


# -- the search


def test_vectors_are_found_by_an_index_under_the_policy(hub: HubDatabase) -> None:
    """PostgreSQL asks no index for an operator that it does not trust before a policy; here it is part of the policy."""
    texts = [f"filler number {n}" for n in range(2000)]
    put(hub, "anna", "long", [*texts, "a plum"])
    with hub.connect("keeper") as connection:
        run(connection, "ANALYZE sesame.hub_vectors")
    with hub.connect("anna") as anna:
        run(anna, "SELECT set_config('sesame.query', '''plum''', false)")
        plan = "\n".join(
            line for (line,) in run(anna, "EXPLAIN SELECT * FROM sesame.hub_vectors WHERE workstation_id = 'aaaaaaaa'")
        )
        assert "Bitmap Index Scan on hub_vectors" in plan, plan
        assert run(anna, "SELECT msg_idx FROM sesame.hub_vectors") == [(2000,)]
        run(anna, "DELETE FROM sesame.hub_messages WHERE msg_idx = 2000")  # and its vector with it
        assert run(anna, "SELECT msg_idx FROM sesame.hub_vectors") == []


DENSE: tuple[Callable[[int], str], ...] = (
    lambda n: f"{n:08x}-{n % 65536:04x}-4{n % 4096:03x}-8{n * 3 % 4096:03x}-{n * 7:012x}",
    lambda n: f"a{n}-b{n}",
)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("package.json", "json"),
        ("src/plan/plum.ts", "plum"),
        ("a-plum", "plum"),
        ("now—plum", "plum"),
        ("it's \\plum'", "plum"),
    ],
)
def test_words_stand_between_all_that_is_no_word(hub: HubDatabase, text: str, word: str) -> None:
    with hub.connect("anna") as anna:
        found = "SELECT sesame.hub_vector('simple', %s, '') @@ %s::tsquery"
        assert run(anna, found, text, word) == [(True,)]


def test_a_text_with_more_words_than_a_vector_holds_is_found_by_its_beginning(hub: HubDatabase) -> None:
    with hub.connect("anna") as anna:
        for make in DENSE:
            text = " ".join(map(make, range(90_000)))
            found = "SELECT sesame.hub_vector('english', %s, '') @@ plainto_tsquery('english', sesame.hub_words(%s))"
            assert run(anna, found, text, make(17)) == [(True,)]


# -- the view

COLUMNS = [
    ("composite_key", "text"), ("workstation_id", "text"), ("project_id", "text"), ("session_id", "text"), ("project_path", "text"),
    ("git_branch", "text"), ("exchange_count", "integer"), ("tool_counts", "text"), ("content", "text"), ("file_mtime", "bigint"),
    ("first_msg_at", "timestamp with time zone"), ("last_msg_at", "timestamp with time zone"),
    ("created_at", "timestamp with time zone"), ("updated_at", "timestamp with time zone"),
]  # fmt: skip


def test_the_view_has_the_columns_and_the_form_of_the_seed(hub: HubDatabase) -> None:
    key = put(hub, "anna", "s", ["first\nline", "an answer", "second", "another"])
    with hub.connect("anna") as anna:
        columns = run(
            anna,
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'indexed_sessions' ORDER BY ordinal_position",
        )
        assert columns == COLUMNS
        assert run(anna, "SELECT composite_key, content, tool_counts::json->>'bash' FROM sesame.indexed_sessions") == [
            (key, "User: first\nline\nAssistant: an answer\n\nUser: second\nAssistant: another\n\n", "2")
        ]


def test_the_seeds_own_statement_runs_with_a_session_of_50_mb(hub: HubDatabase) -> None:
    """Its newest 500 kB are searched; PostgreSQL makes no vector of more."""
    text = "plum pear quince medlar " * 200
    put(hub, "anna", "short", ["a plum jam"])
    put(
        hub,
        "anna",
        "long",
        ["the oldest mirabelle", *[f"{n} {text}" for n in range(50_000_000 // len(text))], "the newest damson"],
        searched=False,
    )
    with hub.connect("anna") as anna:
        run(anna, "SET search_path TO sesame")
        ((size, content),) = run(
            anna, "SELECT octet_length(content), content FROM indexed_sessions WHERE session_id = 'long'"
        )
        assert 480_000 < size <= 510_000
        assert content.endswith(": the newest damson\n\n")

        def ask(words: str) -> list[str]:
            rows = run(anna, SEED, words, words, "aaaaaaaa", "11111111", 10)
            return [row[3] for row in rows]

        assert sorted(ask("plum")) == ["long", "short"]
        assert ask("damson") == ["long"]
        assert ask('"plum jam" -quince') == ["short"]
        assert ask("mirabelle") == []  # beyond the 500 kB; messages are found by themselves, whatever their age


def test_of_two_persons_sessions_with_one_key_each_sees_their_own(hub: HubDatabase) -> None:
    """Two users of one machine have one workstation's id."""
    for person, text in (("anna", "annas"), ("bert", "berts")):
        put(hub, person, "same", [text], team="core")
    share(hub)
    for person, text in (("anna", "annas"), ("bert", "berts")):
        with hub.connect(person) as connection:
            assert run(connection, "SELECT content FROM sesame.indexed_sessions") == [(f"User: {text}\n\n",)]
            assert len(run(connection, "SELECT 1 FROM sesame.hub_sessions")) == (2 if person == "bert" else 1)


# -- connections


def test_a_hub_is_connected_to_as_it_is_configured(hub: HubDatabase) -> None:
    with server.connect(Hub(dsn=hub.dsn("anna"))) as connection:
        assert server.check_schema(connection) == VERSION
        assert run(connection, "SELECT session_user") == [(hub.role("anna"),)]
        assert run(connection, "SHOW jit") == [("off",)]  # a server that has it took two seconds a question for it
    assert len(MIGRATIONS) == VERSION


def test_what_psycopg_warns_of_is_in_no_log(hub: HubDatabase, caplog: pytest.LogCaptureFixture) -> None:
    """A server's error may quote a row."""
    with hub.connect("keeper") as connection:
        with suppress(ZeroDivisionError), connection.pipeline():
            connection.execute("SELECT %s::int", ["canary"])
            raise ZeroDivisionError
        assert caplog.records == []
