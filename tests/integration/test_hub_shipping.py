"""A daemon's index, as a hub has it: everything once, whatever happens in between, and nothing that may not leave."""

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sesamed.config import HubProjects
from sesamed.errors import HubError
from sesamed.hub import rows, server, shipping
from sesamed.hub.claim import Claim, Identity
from tests.support.daemon import Daemon
from tests.support.hub import ALL, Workstation
from tests.support.postgres import HubDatabase, needs_postgres, run
from tests.support.sessions import Call, PiSession

pytestmark = needs_postgres


@pytest.fixture
def hub(hub_database: HubDatabase) -> HubDatabase:
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    return hub_database


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with Daemon() as daemon:
        yield daemon


@pytest.fixture
def here(shared: Daemon, hub: HubDatabase) -> Iterator[Workstation]:
    """A machine that several tests use, one after the other, without sessions at first."""
    yield Workstation(shared, hub)
    for path in shared.root.iterdir():
        path.unlink()
    shared.call("index", dropGone=True)
    assert shared.call("list_sessions", empty=True)["total"] == 0


@pytest.fixture
def alone(hub: HubDatabase) -> Iterator[Workstation]:
    """A machine that a test may do anything with."""
    with Daemon() as daemon:
        yield Workstation(daemon, hub)


def grow(daemon: Daemon) -> None:
    """Sessions with a fork, calls, a result that comes late, and what a person took back."""
    call = Call("bash", {"command": "make quince"})
    first = PiSession(id="first", cwd="/work/app").user("a plum question").assistant("a pear answer", calls=[call])
    daemon.write("first.jsonl", first.bytes())
    fork = first.fork(id="fork").user("another apple")
    daemon.write("fork.jsonl", fork.bytes())
    daemon.write(
        "second.jsonl", PiSession(id="second", cwd="/work/lib").user("parseHTTPDate").assistant("漢字 text").bytes()
    )
    daemon.sync()
    before = len(first.bytes())
    daemon.append("first.jsonl", first.result(call, "output medlar").user("thanks").bytes()[before:])


def test_a_hub_has_what_the_index_has(here: Workstation) -> None:
    """After the first fill, after what is appended, and after nothing; then also the transaction's counter stands still."""
    grow(here.daemon)
    here.ship()
    here.check()
    rows_before = here.sessions()
    here.ship()
    assert here.sessions() == rows_before
    session = PiSession(id="third").user("one more").assistant("damson")
    here.daemon.write("third.jsonl", session.bytes())
    here.ship()
    here.check()
    before = len(session.bytes())
    here.daemon.append("third.jsonl", session.user("and more").bytes()[before:])
    here.ship()
    here.check()


def test_work_for_an_appended_message_is_one_message(here: Workstation, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the hub has already does not leave again."""
    session = PiSession(id="long")
    for number in range(300):
        session.user(f"question {number}")
    here.daemon.write("long.jsonl", session.bytes())
    here.ship()
    sent: list[int] = []
    put = rows.Rows.put_messages

    def count(self: rows.Rows, messages: Any) -> int:
        sent.append(len(messages))
        return put(self, messages)

    monkeypatch.setattr(rows.Rows, "put_messages", count)
    before = len(session.bytes())
    here.daemon.append("long.jsonl", session.user("the last one").bytes()[before:])
    here.ship()
    assert sum(sent) == 1
    here.check()


def test_small_transactions_come_to_the_same(here: Workstation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "ROWS", 3)
    monkeypatch.setattr(shipping, "PAGE", 2)
    monkeypatch.setattr(shipping, "SESSIONS", 2)
    grow(here.daemon)
    here.ship()
    here.check()


def test_what_shrinks_is_cut(here: Workstation) -> None:
    """A file that is written anew with less in it, and one whose messages are others."""
    session = PiSession(id="s").user("one").assistant("two").user("three").assistant("four")
    here.daemon.write("s.jsonl", session.bytes())
    here.ship()
    here.daemon.write("s.jsonl", PiSession(id="s").user("five").assistant("two").bytes())
    here.ship()
    here.check()


@pytest.mark.fault(131)
def test_a_first_fill_ends_while_sessions_grow(here: Workstation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is committed whenever it looks: it ships what there was when it began, and the rest the next time, whole."""
    monkeypatch.setattr(shipping, "SESSIONS", 2)
    grow(here.daemon)
    session = PiSession(id="busy").user("one")
    here.daemon.write("busy.jsonl", session.bytes())
    here.daemon.sync()
    read = shipping.Shipper._read_batch

    def grown(self: shipping.Shipper, position: Any) -> Any:
        before = len(session.bytes())
        here.daemon.append("busy.jsonl", session.user("more").assistant("and more").bytes()[before:])
        here.daemon.sync()
        return read(self, position)

    with monkeypatch.context() as patched:
        patched.setattr(shipping.Shipper, "_read_batch", grown)
        ship_once(here)
    with here.hub.connect("anna") as connection:
        assert run(connection, "SELECT comparing FROM sesame.hub_workstations") == [(False,)]
    here.ship()
    here.check()


def test_forgotten_and_excluded_sessions_go(alone: Workstation) -> None:
    """And those whose files are gone, once they are dropped; followers are told."""
    here = alone
    grow(here.daemon)
    here.ship()
    here.daemon.call("forget", sessionId="second")
    here.ship()
    here.check()
    with here.hub.connect("anna") as connection:
        (forgotten,) = run(connection, "SELECT composite_key, serial FROM sesame.hub_removed")
        assert str(forgotten[0]).endswith(":second")
        assert run(connection, "SELECT 1 FROM sesame.hub_messages WHERE text LIKE '%%parseHTTPDate%%'") == []
    (here.daemon.root / "fork.jsonl").unlink()
    here.ship()
    assert {row["gone"] for row in here.sessions().values()} == {False, True}
    here.daemon.call("forget", sessionId="fork")
    here.ship()
    here.check()


def test_another_index_is_compared_and_nothing_is_double(alone: Workstation) -> None:
    """The index is built anew, with other revisions and another epoch; meanwhile a session has gone from disk."""
    here = alone
    grow(here.daemon)
    here.ship()
    before = here.sessions()
    here.daemon.stop()
    for path in here.daemon.data_dir.glob("index.sqlite*"):
        path.unlink()
    (here.daemon.root / "second.jsonl").unlink()
    here.daemon.start()
    here = Workstation(here.daemon, here.hub)
    here.ship()
    here.check()
    after = here.sessions()
    assert set(before) - set(after) == {key for key in before if key.endswith(":second")}
    with here.hub.connect("anna") as connection:  # what was there has not been written again
        assert all(after[key]["created_at"] == before[key]["created_at"] for key in after)
        serials = run(connection, "SELECT DISTINCT serial FROM sesame.hub_messages WHERE composite_key LIKE '%%:first'")
    assert max(serial for (serial,) in serials) <= max(row["serial"] for row in before.values())


def test_a_session_as_one_text_always_fits_into_a_vector(here: Workstation) -> None:
    """Or one that is full of words with hyphens would have every question to the view fail."""
    session = PiSession(id="dense")
    for part in range(9):
        session.user(" ".join(f"a{number}-b{number}" for number in range(part * 5000, part * 5000 + 5000)))
    here.daemon.write("dense.jsonl", session.bytes())
    here.daemon.write("plain.jsonl", PiSession(id="plain").user("a plum").bytes())
    here.ship()
    with here.hub.connect("anna") as connection:
        sql = "SELECT session_id, octet_length(content) FROM sesame.indexed_sessions WHERE to_tsvector('english', content) IS NOT NULL"
        sizes = dict(run(connection, f"{sql} ORDER BY 1"))
    assert 150_000 < sizes["dense"] < 400_000
    assert sizes["plain"] < 100


# -- what leaves


def make_repository(path: Path, url: str) -> str:
    (path / ".git").mkdir(parents=True)
    (path / ".git/config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n')
    return str(path)


def test_nothing_leaves_that_is_not_allowed(here: Workstation) -> None:
    """By directories and by remotes; what is denied is stronger, and what is no longer allowed goes."""
    home = here.daemon.home
    acme = make_repository(home / "work/acme", "https://me:hunter2-token@github.com/Acme/App.git")
    other = make_repository(home / "work/other", "git@example.org:team/other.git")
    plain = str(home / "plain")
    os.makedirs(plain)
    for name, cwd in (("acme", acme), ("other", other), ("plain", plain)):
        here.daemon.write(f"{name}.jsonl", PiSession(id=name, cwd=cwd).user(f"{name} question").bytes())

    def shipped(**projects: Any) -> dict[str, str]:
        here.change(projects=HubProjects(**projects))
        here.ship()
        return {row["session_id"]: row["project"] for row in here.sessions().values()}

    assert shipped() == {}
    assert shipped(allow=("github.com/acme/*",)) == {"acme": "github.com/acme/app"}
    assert shipped(allow=(f"{home}/work",)) == {"acme": "github.com/acme/app", "other": "example.org/team/other"}
    assert shipped(allow=("**",), deny=("example.org/**",)) == {"acme": "github.com/acme/app", "plain": plain}
    assert shipped(allow=("**",), deny=(f"{home}/pl*",)) == {
        "acme": "github.com/acme/app",
        "other": "example.org/team/other",
    }
    assert shipped(allow=("*.org/**",)) == {"other": "example.org/team/other"}
    assert shipped() == {}
    assert here.texts() == {}
    here.check_counts()
    with here.hub.connect("anna") as connection:
        for (table,) in run(
            connection, "SELECT tablename FROM pg_tables WHERE schemaname = 'sesame' AND tablename !~ '_[0-9]+$'"
        ):
            assert "hunter2" not in str(run(connection, f"SELECT * FROM sesame.{table}"))


def test_a_denied_remote_is_denied_also_when_it_is_not_the_first_and_when_the_repository_is_no_more(
    here: Workstation,
) -> None:
    """What cannot be known to be allowed stays; what the hub was once told of a project counts."""
    home = here.daemon.home
    fork = make_repository(home / "work/fork", "https://github.com/acme/secret")
    with open(home / "work/fork/.git/config", "a") as config:
        config.write('[remote "upstream"]\n\turl = https://github.com/open/tool\n')
    lost = make_repository(home / "work/lost", "git@github.com:acme/secret.git")
    known = make_repository(home / "work/known", "git@github.com:open/known.git")
    for name, cwd in (("fork", fork), ("lost", lost), ("known", known)):
        here.daemon.write(f"{name}.jsonl", PiSession(id=name, cwd=cwd).user(f"{name} question").bytes())
    here.change(projects=HubProjects(allow=(f"{home}/work",), deny=("github.com/acme/secret",)))
    here.ship()
    assert {row["session_id"] for row in here.sessions().values()} == {"known"}
    shutil.rmtree(lost)
    shutil.rmtree(known)
    here.change(language="english")  # all of them are looked at again
    here.ship()
    assert {row["session_id"]: row["project"] for row in here.sessions().values()} == {"known": "github.com/open/known"}


SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # not one


def test_secrets_are_masked_whatever_is_set_locally(hub: HubDatabase) -> None:
    with Daemon({"secrets": "keep"}) as daemon:
        here = Workstation(daemon, hub, tool_results=True)
        session = (
            PiSession(id="s", cwd=f"/work/{SECRET}/app")
            .user(f"use {SECRET} please")
            .name(f"with {SECRET}")
            .tool("bash", {"command": f"echo {SECRET}"}, SECRET)
            .tool(SECRET, {}, "")
        )
        daemon.write("s.jsonl", session.bytes())
        here.ship()
        assert SECRET in str(here.expected())
        (texts,) = here.texts().values()
        assert "[masked:githubtoken]" in texts[0]
        with hub.connect("anna") as connection:
            for table in ("hub_sessions", "hub_messages", "hub_word_counts", "hub_totals"):
                assert SECRET not in str(run(connection, f"SELECT * FROM sesame.{table}"))
                assert "16C7e42F" not in str(run(connection, f"SELECT * FROM sesame.{table}"))


def test_results_roles_and_sources_leave_as_it_is_said(here: Workstation) -> None:
    session = PiSession(id="s").user("question").tool("bash", {"command": "ls"}, "medlar").assistant("answer")
    here.daemon.write("s.jsonl", session.bytes())
    here.ship()
    assert "medlar" not in str(here.texts())
    here.change(tool_results=True)
    here.ship()
    (texts,) = here.texts().values()
    assert texts[1] == "tool: bash\ncommand: ls\noutput:\nmedlar"
    here.change(tool_results=False, roles=("user",))
    here.ship()
    assert [list(texts.values()) for texts in here.texts().values()] == [["question"]]
    here.check_counts()
    here.change(roles=None, sources=("claude",))
    here.ship()
    assert here.tables()["hub_messages"] == here.tables()["hub_sessions"] == 0


@pytest.mark.fault(128)
def test_nul_and_lone_surrogates_do_not_stop_it(here: Workstation) -> None:
    """As JSON can have them, in texts, in names and in directories."""
    lines = PiSession(id="odd", cwd="/work/x").user("QUINCE").name("NAME").lines()
    pairs = (
        (b"QUINCE", b"a\\u0000b \\ud800 c \\udfff"),
        (b"NAME", b"n\\u0000 \\udc00"),
        (b"/work/x", b"/work/\\ud83dx"),
    )
    odd = [functools.reduce(lambda line, pair: line.replace(*pair), pairs, line) for line in lines]
    here.daemon.write("odd.jsonl", b"\n".join(odd) + b"\n")
    here.daemon.write("even.jsonl", PiSession(id="even").user("plain").bytes())
    here.ship()
    assert len(here.sessions()) == 2
    assert sum(map(len, here.texts().values())) == 2


@pytest.mark.fault(129)
def test_a_clock_that_is_wrong_moves_nothing(here: Workstation) -> None:
    """Times are what the files say; how fresh a workstation is says the server's clock."""
    for number, year in enumerate(("2025", "2031", "0001", "9999")):
        session = PiSession(id=f"y{year}", start=f"{year}-01-01T00:00:00.000Z").user("then")
        here.daemon.write(f"{year}.jsonl", session.bytes())
        here.ship()
        assert len(here.sessions()) == number + 1
    here.check()
    with here.hub.connect("anna") as connection:
        assert run(
            connection, "SELECT now() - seen_at < interval '1 hour' AND seen_at <= now() FROM sesame.hub_workstations"
        ) == [(True,)]


# -- faults


def fail_at(monkeypatch: pytest.MonkeyPatch, nth: int, act: Callable[[Any], None]) -> list[int]:
    """Do this to the connection before its nth statement."""
    count = [0]
    execute = psycopg.Connection.execute

    def counted(self: Any, *arguments: Any, **more: Any) -> Any:
        count[0] += 1
        if count[0] == nth:
            act(self)
        return execute(self, *arguments, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    return count


def ship_once(here: Workstation) -> None:
    with server.connect(here.config) as connection:
        here.shipper(connection).catch_up()


@pytest.mark.fault(122)
def test_a_connection_that_is_cut_anywhere_loses_and_doubles_nothing(
    here: Workstation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each statement of a fill in small transactions; the server's side ends, as if it had been killed."""
    for name in ("ROWS", "PAGE", "SESSIONS"):
        monkeypatch.setattr(shipping, name, 2)
    grow(here.daemon)
    here.daemon.sync()
    nth, is_done = 1, False
    while not is_done:
        with monkeypatch.context() as patched:
            with here.hub.server.connect() as other:

                def end(connection: Any, other: Any = other) -> None:
                    other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))

                count = fail_at(patched, nth + 2, end)  # the first two set the connection up
                try:
                    ship_once(here)
                except HubError as error:
                    assert error.cause in {"network", "server"}, error.message  # noqa: PT017
            is_done = count[0] < nth + 2
        nth += 3
    ship_once(here)
    here.check()
    assert here.tables()["hub_workstations"] == 1


@pytest.mark.fault(123)
def test_a_commit_whose_outcome_nobody_knows_is_asked_for(here: Workstation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit arrives, and its answer does not."""
    grow(here.daemon)
    here.daemon.sync()
    leave = psycopg.Transaction.__exit__
    commits: list[int] = []

    def cut(self: Any, kind: Any, error: Any, trace: Any) -> Any:
        left = leave(self, kind, error, trace)
        commits.append(1)
        if len(commits) in (1, 2):
            raise psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly")
        return left

    monkeypatch.setattr(psycopg.Transaction, "__exit__", cut)
    for _ in range(2):
        with pytest.raises(HubError):
            ship_once(here)
    ship_once(here)
    here.check()


@pytest.mark.fault(126)
def test_two_who_ship_as_one_workstation_do_not_fight(here: Workstation) -> None:
    """A copy of a machine has its id: the second one is refused until somebody says that it is the one."""
    grow(here.daemon)
    here.ship()
    before = here.sessions()
    with Daemon({"workstationId": here.id}) as daemon:
        daemon.write("x.jsonl", PiSession(id="x").user("elsewhere").bytes())
        copy = Workstation(daemon, here.hub)
        assert copy.id == here.id
        with pytest.raises(HubError, match="--accept-id") as refused:
            copy.ship()
        assert refused.value.cause == "workstation"
        assert here.sessions() == before
        with server.connect(copy.config) as connection:
            Claim(connection, copy.identity, single_user=False).accept()
        copy.ship()
        copy.check()
        with pytest.raises(HubError, match="--accept-id"):
            here.ship()


@pytest.mark.fault(126)
def test_a_changed_id_is_refused_until_it_is_accepted(alone: Workstation) -> None:
    here = alone
    grow(here.daemon)
    here.ship()
    here.daemon.stop()
    here.daemon.configure({**json.loads(here.daemon.config_file.read_text()), "workstationId": "0badcafe"})
    here.daemon.start()
    here.daemon.allowed.append("workstation")
    now = Workstation(here.daemon, here.hub)
    with pytest.raises(HubError, match="--accept-id") as refused:
        now.ship()
    assert refused.value.cause == "workstation"
    with server.connect(now.config) as connection:
        assert Claim(connection, now.identity, single_user=False).accept() == [here.id]
    now.ship()
    now.check()
    assert now.tables()["hub_workstations"] == 1


@pytest.mark.fault(133)
def test_a_shared_account_is_refused(here: Workstation, hub: HubDatabase) -> None:
    """Another person's machine under this role, and a role that is above policies; unless it is one person's hub."""
    here.ship()
    other = here.identity._replace(workstation="00000000", instance="other", person="bert")
    with server.connect(here.config) as connection:
        with pytest.raises(HubError, match=r"hub\.singleUser") as refused:
            Claim(connection, other, single_user=False).read()
        assert refused.value.cause == "account"
        assert Claim(connection, other, single_user=True).read().serial == 0
    with hub.server.connect(database=hub.name) as connection:
        connection.execute("SET search_path TO pg_catalog")
        with pytest.raises(HubError, match="row-level security") as refused:
            Claim(connection, Identity("11111111", "i", "p"), single_user=False).read()
        assert refused.value.cause == "account"


def test_a_language_that_the_hub_does_not_have_is_said(here: Workstation) -> None:
    here.change(language="klingon")
    here.daemon.write("s.jsonl", PiSession(id="s").user("a plum").bytes())
    with pytest.raises(HubError, match="sesamectl hub check") as refused:
        here.ship()
    assert refused.value.cause == "language"


def test_a_team_sees_the_projects_that_are_shared(here: Workstation) -> None:
    home = here.daemon.home
    for name in ("open", "closed"):
        here.daemon.write(f"{name}.jsonl", PiSession(id=name, cwd=str(home / name)).user(f"{name} plum").bytes())
    bert = here.hub.role("bert")
    here.hub.dsn("bert")
    with here.hub.connect("anna") as anna:
        run(anna, "INSERT INTO sesame.hub_teams(team) VALUES('core')")
        run(anna, "INSERT INTO sesame.hub_members(team, member, accepted) VALUES('core', session_user, true)")
        run(anna, "INSERT INTO sesame.hub_members(team, member) VALUES('core', %s)", bert)
    with here.hub.connect("bert") as connection:
        run(connection, "UPDATE sesame.hub_members SET accepted = true")

    def seen() -> list[str]:
        with here.hub.connect("bert") as connection:
            return [name for (name,) in run(connection, "SELECT session_id FROM sesame.hub_sessions ORDER BY 1")]

    here.change(team="core", projects=HubProjects(allow=("**",), share=(f"{home}/open",)))
    here.ship()
    assert seen() == ["open"]
    here.change(projects=HubProjects(allow=("**",), share=(f"{home}/open/deeper/**",)))  # a part is no project
    here.ship()
    assert seen() == []
    here.change(projects=HubProjects(allow=("**",), share=("**",)))
    here.ship()
    assert seen() == ["closed", "open"]
    here.change(team="", projects=ALL)
    here.ship()
    assert seen() == []
    here.check()


@pytest.mark.fault(134)
def test_the_index_may_be_replaced_between_two_looks(alone: Workstation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of another index stand for other sessions: what is read by them is not what was allowed."""
    here = alone
    grow(here.daemon)
    here.daemon.sync()
    read = shipping.Shipper._read_page
    done: list[int] = []

    def replaced(self: Any, departure: Any, first: int) -> Any:
        if not done:
            done.append(1)
            here.daemon.stop()
            shutil.rmtree(here.daemon.root)
            here.daemon.root.mkdir()
            for path in here.daemon.data_dir.glob("index.sqlite*"):
                if not path.name.endswith(".visitors"):
                    path.unlink()
            here.daemon.start()
            here.daemon.write("z.jsonl", PiSession(id="z").user("quite another").bytes())
            here.daemon.sync()
        return read(self, departure, first)

    monkeypatch.setattr(shipping.Shipper, "_read_page", replaced)
    ship_once(here)
    assert "quite another" not in str({key: text for key, text in here.texts().items() if not key.endswith(":z")})
    ship_once(here)
    here.check()
