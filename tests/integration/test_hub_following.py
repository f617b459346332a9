"""What others ship is kept here, as far as it is shown and named; what they take back goes, and nothing of it is shipped again."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamed.config import Hub, HubProjects
from sesamed.hub import following, server
from sesamed.hub.followed_files import FollowedFiles
from sesamed.hub.following import Follower
from sesamed.hub.migrations import CHANNEL
from sesamed.sources.hub import CALLED, DECODE, SAID
from sesamed.store.index import let_visitors_in
from tests.support.daemon import Daemon, eventually
from tests.support.hub import PATIENT, Workstation
from tests.support.postgres import HubDatabase, Server, needs_postgres, run
from tests.support.sessions import PiSession

pytestmark = needs_postgres

FOLLOW_S = float(os.environ.get("SESAME_FOLLOW_S", "2"))  # two daemons follow each other, and nothing moves

TEAM = {"team": "core", "projects": {"allow": ["**"], "share": ["**"]}}


def make_team(hub: HubDatabase, *persons: str) -> None:
    """Of which all have accepted."""
    for person in persons:
        hub.dsn(person)
    with hub.connect(persons[0]) as connection:
        run(connection, "INSERT INTO sesame.hub_teams(team) VALUES('core')")
        for person in persons:
            sql = "INSERT INTO sesame.hub_members(team, member) VALUES('core', %s)"
            run(connection, sql, hub.role(person))
    for person in persons:
        with hub.connect(person) as connection:
            run(connection, "UPDATE sesame.hub_members SET accepted = true WHERE member = session_user")


@pytest.fixture
def hub(hub_database: HubDatabase) -> HubDatabase:
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    make_team(hub_database, "anna", "bert")
    return hub_database


# -- two daemons


class Pair:
    """Two persons' daemons that ship to one hub, and follow each other."""

    def __init__(self, hub: HubDatabase) -> None:
        self.hub = hub
        self.daemons = {
            name: Daemon(
                {"workstationId": station, "hub": {**TEAM, "dsn": hub.dsn(name), "follow": ["/work/**"]}},
                program=PATIENT,
            )
            for name, station in (("anna", "aaaaaaaa"), ("bert", "bbbbbbbb"))
        }
        for daemon in self.daemons.values():
            daemon.allowed.append(r"the hub says|no connection to the hub|shipping to the hub failed")

    def __enter__(self) -> tuple[Daemon, Daemon]:
        anna, bert = self.daemons.values()
        return anna.start(), bert.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for daemon in self.daemons.values():
            daemon.__exit__(kind, error, trace)

    def is_settled(self) -> bool:
        """Whether each has indexed what it follows, and shipped all that it has."""
        with self.hub.server.connect("postgres", self.hub.name) as connection:
            shipped = run(connection, "SELECT revision FROM sesame.hub_workstations ORDER BY workstation_id")
        for daemon in self.daemons.values():
            daemon.sync()
        return shipped == [(daemon.call("list_sessions")["revision"],) for daemon in self.daemons.values()]

    def counts(self) -> dict[str, Any]:
        """All that there is of anything, here and there."""
        with self.hub.server.connect("postgres", self.hub.name) as connection:
            there = {
                table: run(connection, f"SELECT count(*) FROM sesame.{table}")[0][0]
                for table in ("hub_sessions", "hub_messages", "hub_vectors", "hub_removed", "hub_word_counts")
            }
            there["serials"] = sorted(run(connection, "SELECT workstation_id, serial FROM sesame.hub_workstations"))
        here = {}
        for name, daemon in self.daemons.items():
            files = FollowedFiles(str(daemon.data_dir / "hub")).measure()
            counted = daemon.call("status")["counts"]
            here[name] = (daemon.call("list_sessions")["revision"], counted, files)
        return {**there, **here}


@pytest.mark.fault(116, 117, 118, 121)
def test_two_daemons_follow_each_other(hub: HubDatabase, postgres: Server) -> None:
    """Each has what both have, once; then nothing moves any more. What one forgets, the other one forgets; a hub that is gone changes
    nothing."""
    pair = Pair(hub)
    with pair as (anna, bert):
        session = PiSession(id="hers", cwd="/work/app").user("is the damson ripe?").assistant("the damson is ripe")
        anna.write("hers.jsonl", session.bytes())
        anna.write("private.jsonl", PiSession(id="private", cwd="/home/anna").user("a damson of mine").bytes())
        bert.write("his.jsonl", PiSession(id="his", cwd="/work/app").user("a medlar").bytes())
        eventually(lambda: bert.found("damson") == ["hers"] and anna.found("medlar") == ["his"])
        there, here = (daemon.call("get_session_meta", sessionId="hers") for daemon in (anna, bert))
        same = (
            "key",
            "name",
            "workstation",
            "messageCount",
            "exchangeCount",
            "toolCounts",
            "created",
            "modified",
            "cwd",
        )
        assert {field: there[field] for field in same} == {field: here[field] for field in same}
        assert (here["workstation"], there["person"] is None, here["person"] is None) == ("aaaaaaaa", True, False)
        assert bert.texts("hers") == anna.texts("hers")

        eventually(lambda: bert.call("status")["hub"]["followed"] == 1)
        shown = subprocess.run(
            [sys.executable, "-m", "sesamectl", "hub", "status"], env=bert.environ(), capture_output=True, text=True, check=True
        )  # fmt: skip
        assert "follows   1 session of other machines (" in shown.stdout

        before = len(session.bytes())
        anna.append("hers.jsonl", session.user("and the sloe?").bytes()[before:])
        eventually(lambda: bert.found("sloe") == ["hers"])
        stands_still(pair)
        for daemon, elsewhere in ((anna, []), (bert, ["private"])):  # what is followed is answered from here, once
            hits = daemon.call("search", query="damson", scope="both")["results"]
            assert sorted(hit["sessionId"] for hit in hits) == ["hers", "private"]
            assert [hit["sessionId"] for hit in hits if hit["asOf"] is not None] == elsewhere

        bert.call("index", full=True)
        anna.restart()
        bert.restart().sync()
        assert bert.found("sloe") == ["hers"]
        assert pair.counts()["hub_sessions"] == 3

        anna.call("forget", sessionId="hers")
        eventually(lambda: not bert.found("damson or sloe"))
        assert bert.call("status")["counts"]["gone"] == 0
        assert anna.found("medlar") == ["his"]
        postgres.stop()
        try:
            assert anna.restart().found("medlar") == ["his"]
        finally:
            postgres.start()
        bert.write("more.jsonl", PiSession(id="more", cwd="/work/app").user("a quince").bytes())
        eventually(lambda: anna.found("quince") == ["more"])


def stands_still(pair: Pair) -> None:
    """For two seconds; in .ci/long for ten minutes."""
    eventually(pair.is_settled)
    counts = pair.counts()
    with pair.hub.connect("anna") as connection:
        run(connection, f"LISTEN {CHANNEL}")
        assert list(connection.notifies(timeout=FOLLOW_S, stop_after=1)) == []  # nobody ships anything
    for daemon in pair.daemons.values():
        daemon.hang_up()  # who has said nothing for ten minutes is sent away
    assert pair.counts() == counts


# -- one follower, step by step


class Here:
    """A directory in which a person keeps what others ship."""

    def __init__(
        self, place: Path, there: Workstation, person: str = "bert", follow: tuple[str, ...] = ("**",)
    ) -> None:
        self.files = FollowedFiles(str(place))
        self.database = str(there.daemon.database)  # asked for what is forgotten
        self.hub = Hub(dsn=there.hub.dsn(person), follow=follow)
        self._follower: Follower | None = None

    @property
    def trouble(self) -> str | None:
        """Why not all is kept."""
        assert self._follower is not None
        return self._follower.trouble

    def catch_up(self, *, anew: bool = False) -> int:
        """Look once more, or for the first time; gives how many sessions were written to."""
        if anew and self._follower is not None:
            self.close()
        if self._follower is None:
            connection = server.connect(self.hub)
            self._follower = Follower(connection, self.hub, "bbbbbbbb", self.files, self.database)
        before = self._follower.brought
        self._follower.catch_up()
        return self._follower.brought - before

    def close(self) -> None:
        """End the connection."""
        if self._follower is not None:
            self._follower._connection.close()
            self._follower = None

    def texts(self) -> dict[str, list[str]]:
        """What is kept, by the ends of keys."""
        found = {}
        for path in self.files.measure():
            lines = [DECODE(line) for line in Path(path).read_bytes().splitlines()]
            found[lines[0].session] = [line.text for line in lines if line.type in (SAID, CALLED)]
        return found

    def keys(self) -> dict[str, list[int]]:
        """The keys of records, by the ids of sessions."""
        lines = {path: [DECODE(line) for line in Path(path).read_bytes().splitlines()] for path in self.files.measure()}
        return {
            some[0].session: [line.record for line in some if line.type in (SAID, CALLED)] for some in lines.values()
        }

    def inodes(self) -> dict[str, int]:
        """By which a file that was written anew is told from one that has grown."""
        return {path: os.stat(path).st_ino for path in self.files.measure()}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon({"workstationId": "aaaaaaaa"}) as running:
        yield running


@pytest.fixture
def there(daemon: Daemon, hub: HubDatabase) -> Workstation:
    for file in daemon.root.iterdir():
        file.unlink()
    daemon.hang_up()  # another test may have taken ten minutes: a connection that was idle for so long is closed
    daemon.call("index", dropGone=True)
    return Workstation(daemon, hub, team="core", projects=HubProjects(allow=("**",), share=("**",)))


@pytest.fixture
def here(tmp_path: Path, there: Workstation) -> Iterator[Here]:
    made = Here(tmp_path / "hub", there)
    (tmp_path / "hub").mkdir()
    yield made
    made.close()


@pytest.mark.fault(115)
def test_what_grows_is_appended_and_what_changes_is_written_anew(there: Workstation, here: Here) -> None:
    """A file says itself how far it is: also the next follower goes on with it; and one that was torn is made anew."""
    session = PiSession(id="one", cwd="/work/app").user("a plum").assistant("a pear")
    there.daemon.write("one.jsonl", session.bytes())
    there.ship()
    assert here.catch_up() == 1
    assert here.texts() == {"one": ["a plum", "a pear"]}
    assert here.catch_up() == 0
    inodes, before = here.inodes(), len(session.bytes())
    there.daemon.append("one.jsonl", session.user("a quince").bytes()[before:])
    there.ship()
    assert here.catch_up(anew=True) == 1
    assert (here.texts(), here.inodes()) == ({"one": ["a plum", "a pear", "a quince"]}, inodes)

    there.daemon.write("one.jsonl", PiSession(id="one", cwd="/work/app").user("a plum").assistant("an apple").bytes())
    there.ship()
    assert here.catch_up() == 1
    assert here.texts() == {"one": ["a plum", "an apple"]}
    assert here.inodes() != inodes

    (path,) = here.files.measure()
    os.truncate(path, os.stat(path).st_size - 7)
    assert here.catch_up() == 0  # nothing has changed there
    assert here.catch_up(anew=True) == 1
    assert here.texts() == {"one": ["a plum", "an apple"]}


def test_what_counts_no_more_does_not_grow(there: Workstation, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a session stands behind each message that comes: a file is written anew before that is most of it."""
    monkeypatch.setattr(following, "MOST_STALE", 1000)
    session = PiSession(id="one", cwd="/work/app").user("a plum").name("long " * 30)
    there.daemon.write("one.jsonl", session.bytes())
    there.ship()
    here.catch_up()
    seen = set(here.inodes().values())
    for number in range(6):
        before = len(session.bytes())
        there.daemon.append("one.jsonl", session.user(f"a quince {number}").bytes()[before:])
        there.ship()
        assert here.catch_up() == 1
        seen |= set(here.inodes().values())
    (path,) = here.files.measure()
    lines = Path(path).read_bytes().splitlines()
    assert here.texts() == {"one": ["a plum", *(f"a quince {number}" for number in range(6))]}
    assert 1 < len(seen) < 6
    assert len(lines) < 2 * 7


def test_what_is_named_is_followed(there: Workstation, tmp_path: Path) -> None:
    """By directories, by remotes, by persons, and never one's own machine."""
    repository = there.daemon.directory / "repository"
    (repository / ".git").mkdir(parents=True, exist_ok=True)
    (repository / ".git/config").write_text('[remote "origin"]\n\turl = git@github.com:Acme/App.git\n')
    for name, cwd in (("one", "/work/app"), ("two", "/work/lib/deep"), ("three", str(repository))):
        there.daemon.write(f"{name}.jsonl", PiSession(id=name, cwd=cwd).user("a plum").bytes())
    there.ship()
    for number, (follow, expected) in enumerate(
        (
            (("/work/lib",), {"two"}),
            (("/work/*",), {"one", "two"}),
            (("github.com/acme/*",), {"three"}),
            (("@anna*",), {"one", "two", "three"}),
            (("@bert*", "/nowhere"), set()),
        )
    ):
        (place := tmp_path / str(number)).mkdir()
        here = Here(place, there, follow=follow)
        here.catch_up()
        assert set(here.texts()) == expected, follow
        here.close()


@pytest.mark.fault(117)
def test_what_is_taken_back_goes(there: Workstation, here: Here) -> None:
    """Forgotten there, no longer allowed, no longer shared, or left by who was a member; and nothing of it is left on the disk."""
    for name in ("left", "two", "three"):
        there.daemon.write(f"{name}.jsonl", PiSession(id=name, cwd=f"/work/{name}").user(f"a plum {name}").bytes())
    there.ship()
    here.catch_up()
    assert set(here.texts()) == {"left", "two", "three"}
    there.daemon.call("forget", sessionId="left")
    there.ship()
    here.catch_up()
    assert set(here.texts()) == {"two", "three"}
    there.change(projects=HubProjects(allow=("**",), deny=("/work/two",), share=("**",)))
    there.ship()
    here.catch_up()
    assert set(here.texts()) == {"three"}
    there.change(projects=HubProjects(allow=("**",)))
    there.ship()
    here.catch_up()
    assert here.files.measure() == {}
    there.change(projects=HubProjects(allow=("**",), share=("**",)))
    there.ship()
    here.catch_up()
    assert len(here.files.measure()) == 2
    with there.hub.connect("bert") as connection:
        run(connection, "DELETE FROM sesame.hub_members WHERE member = session_user")
    here.catch_up()
    assert here.files.measure() == {}


@pytest.mark.fault(119)
def test_a_fork_on_ones_own_machine_is_known_by_its_records_and_nobody_elses_stands_for_them(
    there: Workstation, here: Here, tmp_path: Path
) -> None:
    """Keys are the same on all of a person's machines. Those of somebody else's are others, so that none can say what another one said."""
    first = PiSession(id="one", cwd="/work/app").user("a plum").assistant("a pear")
    there.daemon.write("one.jsonl", first.bytes())
    there.daemon.write("fork.jsonl", first.fork(id="fork").user("an apple").bytes())
    there.ship()
    with there.hub.connect("anna") as connection:
        sql = "SELECT array_agg(record_key ORDER BY msg_idx) FROM sesame.hub_messages WHERE composite_key LIKE '%%:one'"
        ((shipped,),) = run(connection, sql)
    (place := tmp_path / "hers").mkdir()
    hers = Here(place, there, person="anna")
    for one in (hers, here):
        one.catch_up()
        assert one.keys()["one"] == one.keys()["fork"][:2]
    assert hers.keys()["one"] == shipped
    assert not set(here.keys()["one"]) & set(shipped)
    hers.close()


def test_what_is_forgotten_here_is_not_brought(there: Workstation, here: Here, tmp_path: Path) -> None:
    """Whoever has forgotten it in the index that the follower asks."""
    there.daemon.write("one.jsonl", PiSession(id="one", cwd="/work/app").user("a plum").bytes())
    there.ship()
    here.catch_up()
    assert len(here.files.measure()) == 1
    with Daemon() as other:
        let_visitors_in(str(other.database))
        other.write("one.jsonl", PiSession(id="one").user("a plum").bytes())
        other.sync()
        other.call("forget", sessionId="one")
        here.database = str(other.database)
        assert here.catch_up(anew=True) == 0
        (path,) = here.files.measure()
        os.unlink(path)
        here.catch_up(anew=True)
        assert here.files.measure() == {}


@pytest.mark.fault(119)
def test_a_workstation_that_is_none_names_no_file(there: Workstation, here: Here, tmp_path: Path) -> None:
    """Somebody in the team ships a session under an id that leads out of the directory."""
    there.daemon.write("one.jsonl", PiSession(id="one", cwd="/work/app").user("a plum").bytes())
    there.ship()
    strange = {"workstation_id": "../strange", "composite_key": "../strange:00000000:two", "session_id": "two"}
    with there.hub.connect("anna") as connection:
        for table in ("hub_workstations", "hub_shares", "hub_sessions"):
            sql = f"INSERT INTO sesame.{table} SELECT (jsonb_populate_record(t, %s)).* FROM sesame.{table} t"
            run(connection, sql, json.dumps(strange))
    here.catch_up()
    assert set(here.texts()) == {"one"}
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


@pytest.mark.fault(120)
def test_there_has_to_be_room(there: Workstation, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no room is said, and comes when there is some."""
    there.daemon.write("one.jsonl", PiSession(id="one", cwd="/work/app").user("a plum").bytes())
    there.ship()
    with monkeypatch.context() as patched:
        patched.setattr(following, "LEAST_FREE", 1 << 60)
        assert here.catch_up() == 0
        assert "are free" in str(here.trouble)
        patched.setattr(following, "LEAST_FREE", 0)
        patched.setattr(following, "MOST_BYTES", -1)
        assert here.catch_up() == 0
        assert "name fewer in hub.follow" in str(here.trouble)
    assert here.catch_up() == 1
    assert here.trouble is None
