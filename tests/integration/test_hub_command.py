"""`sesamectl hub`: from a configuration to a hub that has everything, and what is wrong when it is not so."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import json5
import msgspec
import pytest

from sesamed.config import Hub
from sesamed.errors import HubCause
from sesamed.hub import checking
from sesamed.hub import server as hub_server
from sesamed.hub.claim import Identity
from sesamed.hub.migrations import VERSION
from tests.support import measured
from tests.support.daemon import Daemon, eventually
from tests.support.documents import examples
from tests.support.hub import Workstation
from tests.support.postgres import HubDatabase, Server, find_programs, needs_postgres, run
from tests.support.sessions import PiSession

pytestmark = needs_postgres
ALLOW = {"projects": {"allow": ["**"]}}


class Machine:
    """A daemon's machine, and its `sesamectl hub`."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.kept = json.loads(daemon.config_file.read_text())

    def configure(self, **hub: Any) -> None:
        """Another hub; for the next command, not for the daemon that runs."""
        self.daemon.configure({**self.kept, "hub": hub})

    def hub(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run it, without a terminal; it is measured, since what it does of `sesamed` no daemon does."""
        command = [sys.executable, "-W", "error", "-m", "sesamectl", "hub", *words]
        environ = self.daemon.environ() | measured.switch()
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )

    def json(self, *words: str) -> dict[str, Any]:
        """Its answer."""
        done = self.hub(*words, "--json")
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def doctor(self) -> tuple[str, str]:
        """How `sesamectl doctor` finds the hub, and the words that say as whom it is asked."""
        command = [sys.executable, "-m", "sesamectl", "doctor", "--json"]
        done = subprocess.run(command, env=self.daemon.environ(), capture_output=True, text=True, check=False)
        (found,) = (one for one in json.loads(done.stdout)["findings"] if one["check"] == "hub")
        return found["level"], found["message"].split(", ")[2]

    def wrong(self) -> list[tuple[HubCause, str]]:
        """What `check` finds wrong."""
        return [(one["cause"], one["text"]) for one in self.json("check")["checks"] if one["level"] == "wrong"]


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Daemon() as daemon:
        yield Machine(daemon.fill())


def test_from_nothing_to_a_hub_that_has_everything(machine: Machine, hub_database: HubDatabase) -> None:
    """As somebody sets it up whose role is no superuser."""
    refused = machine.hub("status")
    assert refused.returncode == 4
    assert "hub.dsn" in refused.stderr
    assert "CREATE TABLE sesame.hub_sessions" in machine.hub("init", "--print").stdout
    machine.configure(dsn="host=db.example password=right")
    refused = machine.hub("check")
    assert refused.returncode == 4
    assert "PGPASSFILE" in refused.stderr
    machine.configure(dsn=hub_database.dsn("keeper"), **ALLOW)
    assert machine.wrong()[0][0] == "empty"
    refused = machine.hub("init")
    assert "--yes" in refused.stderr
    assert "row-level security" in refused.stderr
    assert machine.json("init", "--yes")["done"] == list(range(1, VERSION + 1))
    assert machine.json("init", "--yes")["done"] == []
    preview = machine.json("fill", "--dry-run")
    (project,) = preview["projects"]
    assert (project["sessions"], project["messages"], preview["staying"]) == (3, 6, 0)
    assert machine.wrong() == []
    assert machine.json("fill")["messages"] == 6
    assert machine.json("fill")["messages"] == 0
    here = Workstation(machine.daemon, hub_database, "keeper")
    here.check()
    status = machine.json("status")
    assert [(one["mine"], one["sessions"], one["messages"]) for one in status["workstations"]] == [(True, 3, 6)]
    assert status["error"] is None
    assert machine.doctor() == ("ok", f"as {hub_database.role('keeper')}")
    assert "--yes" in machine.hub("forget").stderr
    assert machine.json("forget", "--yes")["removed"] == 3
    assert here.tables()["hub_messages"] == here.tables()["hub_workstations"] == 0
    for words in (["status"], ["check"], ["fill", "--dry-run"], ["fill"], ["forget", "--yes"], ["init", "--yes"]):
        done = machine.hub(*words)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout


def test_without_an_index_it_is_said_what_makes_one() -> None:
    """As after the configuration was written, and nothing else."""
    daemon = Daemon()
    try:
        machine = Machine(daemon)
        machine.configure(dsn="host=/nonexistent", **ALLOW)
        for words in (["fill", "--dry-run"], ["fill"]):
            refused = machine.hub(*words)
            assert refused.returncode == 4
            assert "run `sesamectl start`" in refused.stderr
    finally:
        daemon.remove()


def test_the_document_is_true(machine: Machine, hub_database: HubDatabase) -> None:
    """Its configuration is one, its statements run, by the roles that it names, and find what there is."""
    shown = {
        language: [e.text for e in examples("docs/hub.md") if e.language == language] for language in ("jsonc", "sql")
    }
    (configuration,) = shown["jsonc"]
    written = json5.loads(configuration)["hub"]
    machine.configure(**written)
    assert machine.json("fill", "--dry-run")["staying"] == 3
    with hub_database.connect("keeper") as connection:
        hub_server.migrate(connection)
    here = Workstation(machine.daemon, hub_database)
    machine.daemon.write("nix.jsonl", PiSession(id="nix").user("a nix flake").bytes())
    here.ship()
    hub_database.dsn("bert")
    team, accepted, dropped, slow, quick = shown["sql"]
    with hub_database.connect("anna") as anna, hub_database.connect("bert") as bert:
        for statement in filter(None, map(str.strip, team.replace("'anna'", "session_user").split(";"))):
            run(anna, statement.replace("'bert'", f"'{hub_database.role('bert')}'"))
        run(bert, accepted)
        assert run(bert, "SELECT accepted FROM sesame.hub_members") == [(True,)]
        for statements in (slow, quick):
            *before, last = (part for part in statements.split(";") if part.strip())
            for statement in before:
                run(anna, statement)
            assert len(run(anna, last)) == 1
    assert here.tables()["hub_sessions"] > 0
    with hub_database.server.connect(database=hub_database.name) as above:
        run(above, dropped.replace("'carl'", f"'{hub_database.role('anna')}'"))
    assert set(here.tables().values()) == {0}
    with hub_database.connect("bert") as bert:
        assert run(bert, "SELECT * FROM sesame.hub_teams") + run(bert, "SELECT * FROM sesame.hub_members") == []


@pytest.fixture(scope="module")
def tcp_server() -> Iterator[Server]:
    """One with a port of 127.0.0.1, where roles have passwords."""
    programs = find_programs()
    assert programs is not None
    server = Server(programs)
    try:
        yield server.start(tcp=True)
    finally:
        server.remove()


def test_each_cause_is_told_apart(tcp_server: Server) -> None:
    """What is wrong, and what to do, and nothing of a password."""
    with tcp_server.connect() as connection:
        run(connection, "CREATE ROLE anna LOGIN PASSWORD 'right'")
        run(connection, "CREATE ROLE bert LOGIN PASSWORD 'right'")
        run(connection, "CREATE DATABASE hub")
        run(connection, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    place = f"host=127.0.0.1 port={tcp_server.port}"
    identity = Identity("0badcafe", "instance", "anna")
    right = {"passwordCommand": ["echo", "right"], **ALLOW}

    def cause(dsn: str, **hub: Any) -> HubCause | None:
        configured = msgspec.convert({"dsn": dsn, **right, **hub}, Hub)
        wrong = [one for one in checking.check(configured, identity) if one.level == "wrong"]
        assert all("right" not in one.text.replace("rights", "") for one in wrong)
        return wrong[0].cause if wrong else None

    assert cause("host=nowhere.invalid user=anna dbname=hub") == "dns"
    assert cause("host=127.0.0.1 port=1 user=anna dbname=hub") == "network"
    assert cause(f"{place} user=anna dbname=hub sslmode=require") == "tls"
    assert cause(f"{place} user=anna dbname=hub", passwordCommand=["echo", "wrong"]) == "password"
    assert cause(f"{place} user=anna dbname=hub", passwordCommand=["false"]) == "password"
    assert cause(f"{place} user=anna dbname=hub", passwordCommand=["/no/such"]) == "password"
    assert cause(f"{place} user=anna dbname=nowhere") == "database"
    assert cause(f"{place} user=nobody dbname=hub") == "password"  # the server does not tell strangers who there is
    assert cause(f"{place} user=anna dbname=latin") == "encoding"
    assert cause(f"{place} user=anna dbname=hub") == "empty"
    assert cause("user=anna", service="nowhere") == "configuration"
    with tcp_server.connect(database="hub") as connection:
        hub_server.migrate(connection, "anna")
        assert cause(f"{place} user=bert dbname=hub") == "rights"
        assert cause(f"{place} user=anna dbname=hub") is None
        assert cause(f"{place} user=anna dbname=hub", language="klingon") == "language"
        run(connection, "INSERT INTO sesame.hub_schema(version, oldest_client, grantee) VALUES(99, 99, '')")
        assert cause(f"{place} user=anna dbname=hub") == "newer"


def test_passwords_come_from_a_file(machine: Machine, tcp_server: Server) -> None:
    """As libpq has it: the daemon's own environment names it."""
    with tcp_server.connect() as connection:
        run(connection, "CREATE ROLE carl LOGIN PASSWORD 'secret-of-carl'")
        run(connection, "CREATE DATABASE files OWNER carl")
    file, services = machine.daemon.home / "pass", machine.daemon.home / "services"
    file.write_text(f"127.0.0.1:{tcp_server.port}:files:carl:secret-of-carl\n")
    file.chmod(0o600)
    services.write_text(f"[team]\nhost=127.0.0.1\nport={tcp_server.port}\nuser=carl\ndbname=files\n")
    machine.daemon.extra_environ |= {"PGPASSFILE": str(file), "PGSERVICEFILE": str(services)}
    machine.configure(service="team", **ALLOW)
    assert machine.json("init", "--yes")["done"] == list(range(1, VERSION + 1))
    machine.daemon.restart()
    here = Workstation(machine.daemon, Named(tcp_server, "files", "carl"))
    eventually(lambda: len(here.sessions()) == 3)
    said = machine.daemon.log + str(machine.json("status")) + json.dumps(machine.daemon.call("status"))
    assert "secret-of-carl" not in said


class Named(HubDatabase):
    """A database that is there, with one role."""

    def __init__(self, server: Server, name: str, role: str) -> None:
        self.server, self.name, self._role = server, name, role

    def dsn(self, person: str) -> str:
        """Through the socket, where no password is asked for."""
        return self.server.dsn(self._role, self.name)


def test_another_id_is_accepted(machine: Machine, hub_database: HubDatabase) -> None:
    machine.configure(dsn=hub_database.dsn("keeper"), **ALLOW)
    machine.json("init", "--yes")
    machine.json("fill")
    before = {row["workstation_id"] for row in Workstation(machine.daemon, hub_database, "keeper").sessions().values()}
    machine.kept["workstationId"] = "0badcafe"
    machine.configure(dsn=hub_database.dsn("keeper"), **ALLOW)
    assert [cause for cause, _ in machine.wrong()] == ["workstation"]
    refused = machine.hub("fill")
    assert refused.returncode != 0
    assert "--accept-id" in refused.stderr
    assert machine.hub("check", "--accept-id").returncode != 0  # nobody said yes
    assert machine.hub("check", "--accept-id", "--yes").returncode == 0
    machine.json("fill")
    after = {row["workstation_id"] for row in Workstation(machine.daemon, hub_database, "keeper").sessions().values()}
    assert (len(before), after) == (1, {"0badcafe"})


def test_a_team_that_one_is_not_in_is_told(machine: Machine, hub_database: HubDatabase) -> None:
    """Or has not accepted: by whoever ships, and whoever checks, with what to do."""
    shared = {"team": "o'core", "projects": {"allow": ["**"], "share": ["**"]}}
    with hub_database.connect("keeper") as connection:
        hub_server.migrate(connection)
        machine.configure(dsn=hub_database.dsn("anna"), **shared)
        ((cause, text),) = machine.wrong()
        assert cause == "rights"
        run(connection, "INSERT INTO sesame.hub_teams(team) VALUES ($$o'core$$)")
        run(connection, text.rpartition("says: ")[2])
    for said in (machine.wrong()[0][1], machine.hub("fill").stderr, machine.hub("status").stdout):
        assert "you have not accepted the team" in said
    with hub_database.connect("anna") as connection:
        run(connection, machine.wrong()[0][1].rpartition("say: ")[2])
    assert machine.wrong() == []
    assert machine.json("fill")["messages"] > 0
    assert "team" in [one["name"] for one in machine.json("check")["checks"]]


def test_fill_does_not_work_against_a_daemon_with_other_rules(machine: Machine, hub_database: HubDatabase) -> None:
    """What the configuration denies would be taken out, and brought again by who does not know it."""
    with hub_database.connect("keeper") as connection:
        hub_server.migrate(connection)
    dsn = hub_database.dsn("anna")
    machine.configure(dsn=dsn, **ALLOW)
    machine.daemon.restart()
    here = Workstation(machine.daemon, hub_database)
    eventually(lambda: len(here.sessions()) == 3)
    assert machine.hub("fill").returncode == 0
    machine.configure(dsn=dsn, projects={"allow": ["**"], "deny": ["**"]})
    refused = machine.hub("fill")
    assert (refused.returncode, len(here.sessions())) == (4, 3)
    assert "sesamectl restart" in refused.stderr
    for words in (["fill", "--dry-run"], ["status"]):
        assert "until `sesamectl restart`" in machine.hub(*words).stdout
    machine.daemon.restart()
    eventually(lambda: here.sessions() == {})
    assert machine.hub("fill").returncode == 0
    machine.daemon.kill()
    machine.configure(dsn=dsn, **ALLOW)
    eventually(lambda: machine.hub("fill").returncode == 0)  # what a dead process has said does not count
    assert len(here.sessions()) == 3
    machine.daemon.start()


def test_a_dry_run_connects_to_nothing(machine: Machine) -> None:
    machine.daemon.write("x.jsonl", PiSession(id="x", cwd="/private/x").user("stays").bytes())
    machine.daemon.sync()
    machine.configure(
        dsn="host=nowhere.invalid",
        projects={"allow": ["**"], "deny": ["/private"], "share": ["/home/me/**"]},
        team="core",
    )
    preview = machine.json("fill", "--dry-run")
    assert (preview["staying"], preview["denied"]) == (1, 1)
    assert "1 session would stay here, 1 of them by hub.projects.deny" in machine.hub("fill", "--dry-run").stdout
    assert [one["team"] for one in preview["projects"]] == ["core"]
