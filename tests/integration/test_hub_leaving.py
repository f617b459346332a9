"""What stays because of where a session was: all of it, wherever it began, and whoever says it again."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamed.config import HubProjects
from sesamed.hub import checking, server, shipping
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.daemon import Daemon
from tests.support.hub import Workstation
from tests.support.postgres import HubDatabase, needs_postgres
from tests.support.sessions import PiSession, Transcript

pytestmark = needs_postgres

AGENTS = ("pi", "claude", "codex")
IDS = {
    name: f"5a1e0000-0000-4000-8000-0000000000{number:02x}" for number, name in enumerate(("moved", "forked", "other"))
}


class Home(Workstation):
    """A machine with three agents, and a directory `open` that may leave with all below but `open/secret`."""

    def __init__(self, hub: HubDatabase, daemon: Daemon, **settings: Any) -> None:
        self.open = make_directory(daemon.home / "open")
        self.secret = make_directory(daemon.home / "open/secret")
        projects = HubProjects(allow=(self.open,), deny=(self.secret,))
        super().__init__(daemon, hub, **{"projects": projects, **settings})

    def write(self, session: Transcript) -> None:
        """A session of whichever agent."""
        agent = {PiSession: "pi", ClaudeSession: "claude", CodexSession: "codex"}[type(session)]
        path = self.daemon.directory / agent / session.file_name
        path.write_bytes(session.bytes())

    def shipped(self) -> set[str]:
        """The ids of what the hub has, after the next pass; what a dry run says is the same."""
        self.ship()
        found = {row["session_id"] for row in self.sessions().values()}
        preview = checking.preview(str(self.daemon.database), self.config, self.id)
        assert sum(project["sessions"] for project in preview["projects"]) == len(found)
        assert preview["denied"] == preview["staying"]
        assert {key.rpartition(":")[2] for key in self.texts()} <= found
        return found


def make_directory(path: Path, remote: str | None = None) -> str:
    path.mkdir(parents=True, exist_ok=True)
    if remote is not None:
        (path / ".git").mkdir()
        (path / ".git/config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    return str(path)


@pytest.fixture
def home(hub_database: HubDatabase) -> Iterator[Home]:
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    daemon = Daemon(None)
    for agent in AGENTS:
        (daemon.directory / agent).mkdir()
    daemon.configure({"sources": [{"parser": agent, "path": str(daemon.directory / agent)} for agent in AGENTS]})
    with daemon:
        yield Home(hub_database, daemon)


def move(session: Any, cwd: str) -> None:
    """The person goes on elsewhere."""
    session.cwd = cwd
    if isinstance(session, CodexSession):
        session.line("turn_context", {"cwd": cwd})


@pytest.mark.fault(135)
@pytest.mark.parametrize("make", [ClaudeSession, CodexSession])
def test_who_moves_into_a_denied_directory_goes_from_the_hub(home: Home, make: Any) -> None:
    """Before it is shipped, and after; and it stays away when the person comes back."""
    session = make(id=IDS["moved"], cwd=home.open).user("a plum question").assistant("a pear answer")
    other = make(id=IDS["other"], cwd=home.open, start="2026-03-02T09:00:00.000Z").user("another question")
    home.write(session)
    home.write(other)
    assert home.shipped() == {IDS["moved"], IDS["other"]}
    move(session, home.secret)
    home.write(session.user("the formula is quince"))
    assert home.shipped() == {IDS["other"]}
    assert "plum" not in str(home.texts())
    move(session, home.open)
    home.write(session.user("back again"))
    assert home.shipped() == {IDS["other"]}
    home.daemon.call("index", full=True)  # as an index that is made anew knows it
    assert home.shipped() == {IDS["other"]}
    home.check_counts()


def test_a_call_that_was_made_in_a_denied_directory_is_enough(home: Home) -> None:
    """Also where that is named by its way from the turn's."""
    for number, workdir in enumerate((home.secret, "secret", "./src/../secret/below")):
        session = CodexSession(
            id=IDS["moved"][:-1] + "abc"[number], cwd=home.open, start=f"2026-03-0{number + 1}T09:00:00.000Z"
        )
        session.user("look there").tool("exec_command", {"cmd": "ls", "workdir": workdir}, "nothing")
        home.write(session)
    home.write(
        CodexSession(id=IDS["other"], cwd=home.open)
        .user("look here")
        .tool("exec_command", {"cmd": "ls", "workdir": "src"}, "x")
    )
    assert home.shipped() == {IDS["other"]}


def test_a_denied_remote_counts_wherever_the_session_went(home: Home) -> None:
    """Also when its repository is gone; a directory in no repository has none."""
    work = make_directory(home.daemon.home / "open/work", "git@example.org:team/app.git")
    secret = make_directory(home.daemon.home / "open/clone", "https://example.org/team/formula")
    plain = make_directory(home.daemon.home / "open/plain")
    home.change(projects=HubProjects(allow=(home.open,), deny=("example.org/team/formula",)))
    for name, cwd in (("moved", f"{secret}/src"), ("other", plain)):
        session = ClaudeSession(id=IDS[name], cwd=work).user(f"{name} question")
        move(session, cwd)
        home.write(session.user(f"{name} there"))
    assert home.shipped() == {IDS["other"]}
    for directory in (secret, plain):
        shutil.rmtree(directory)
    home.change(language="english")  # all of them are looked at again
    assert home.shipped() == {IDS["other"]}


@pytest.mark.fault(135)
@pytest.mark.parametrize("is_late", [False, True])
def test_what_a_fork_inherits_from_a_denied_directory_stays(home: Home, is_late: bool) -> None:
    """Copied lines say nothing of where they were said; nor does a fork that copies nothing. So the fork stays as a whole."""
    secret = PiSession(id="secret", cwd=home.secret).user("the formula is quince")
    fork = secret.fork(id="fork").moved(home.open).user("go on in the open")
    base = {"thread_id": IDS["moved"], "end_ordinal_exclusive": 100}
    begun = CodexSession(id=IDS["moved"], cwd=home.open, ordinal=1).user("in the open")
    heir = CodexSession(id=IDS["forked"], cwd=home.open, ordinal=1, start="2026-03-03T09:00:00.000Z", history_base=base)
    home.write(heir.user("go on"))
    if is_late:  # what the fork comes from is denied only now
        home.change(projects=HubProjects(allow=(home.open,)))
    for session in (secret, fork, begun):
        home.write(session)
    if is_late:
        assert home.shipped() == {"secret", "fork", IDS["moved"], IDS["forked"]}
        home.change(projects=HubProjects(allow=(home.open,), deny=(home.secret,)))
    assert home.shipped() == {IDS["moved"], IDS["forked"]}
    move(begun, home.secret)
    home.write(begun.user("the formula"))
    assert home.shipped() == set()


def test_what_works_for_a_session_stays_with_it(home: Home) -> None:
    """A subagent, also when its session moves later."""
    session = ClaudeSession(id=IDS["moved"], cwd=home.open).user("have it done")
    agent = ClaudeSession(id=IDS["moved"], cwd=home.open, agent="a1").user("do it").assistant("done")
    home.write(session)
    home.write(agent)
    assert home.shipped() == {IDS["moved"], "agent-a1"}
    move(session, home.secret)
    home.write(session.user("the formula"))
    assert home.shipped() == set()


@pytest.mark.fault(135)
def test_a_session_that_moves_while_it_is_shipped_stays(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the choice and the reading of its records."""
    session = ClaudeSession(id=IDS["moved"], cwd=home.open).user("a plum question")
    home.write(session)
    read = shipping.Shipper._read_page

    def moved(self: shipping.Shipper, *page: Any) -> Any:
        if session.cwd == home.open:
            move(session, home.secret)
            home.write(session.user("the formula is quince"))
            home.daemon.sync()
        return read(self, *page)

    monkeypatch.setattr(shipping.Shipper, "_read_page", moved)
    assert home.shipped() == set()
    assert session.cwd == home.secret


class Talk:
    """A session, where it is, and whether anything of it was said in the denied directory."""

    def __init__(self, session: Any, place: str, *, is_secret: bool) -> None:
        self.session = session
        self.place = place
        self.is_secret = is_secret or place == "secret"

    def say(self, number: int) -> None:
        """Something that tells where it was said."""
        self.session.user(f"in{self.place} quince{number}")


class Talks:
    """Sessions that begin, move and fork."""

    def __init__(self, home: Home, chance: random.Random) -> None:
        self._chance = chance
        self._places = {"open": home.open, "secret": home.secret, "other": f"{home.open}/lib"}
        self.all: list[Talk] = []

    def act(self, number: int) -> None:
        """One of them says something: a new one, or one where it is, elsewhere, or as a fork."""
        act = self._chance.choice((self._begin, self._stay, self._move, self._fork)) if self.all else self._begin
        act().say(number)

    def _name(self) -> str:
        return f"5a1e0000-0000-4000-8000-{len(self.all):012x}"

    def _begin(self) -> Talk:
        make, place = (
            self._chance.choice((PiSession, ClaudeSession, CodexSession)),
            self._chance.choice([*self._places]),
        )
        start = f"2026-03-01T09:{len(self.all):02}:00.000Z"
        return self._add(make(id=self._name(), cwd=self._places[place], start=start), place)

    def _stay(self) -> Talk:
        return self._chance.choice(self.all)

    def _move(self) -> Talk:
        talk, place = self._stay(), self._chance.choice([*self._places])
        if not isinstance(talk.session, PiSession):  # which stays where it began
            move(talk.session, self._places[place])
            talk.place, talk.is_secret = place, talk.is_secret or place == "secret"
        return talk

    def _fork(self) -> Talk:
        talk, place = self._stay(), self._chance.choice(("open", "other"))
        session, cwd, name = talk.session, self._places[place], self._name()
        if isinstance(session, PiSession):
            fork: Any = session.fork(id=name).moved(cwd)
        elif isinstance(session, ClaudeSession):
            fork = self._chance.choice((session.copied, session.resumed, session.sdk_fork, session.branch_off))(name)
            fork.cwd = cwd
        else:
            fork = session.fork(id=name)
            move(fork, cwd)
        return self._add(fork, place, is_secret=talk.is_secret)

    def _add(self, session: Any, place: str, *, is_secret: bool = False) -> Talk:
        self.all.append(Talk(session, place, is_secret=is_secret))
        return self.all[-1]


@pytest.mark.fault(135)
def test_nothing_that_was_said_in_a_denied_directory_leaves(home: Home, chance: random.Random) -> None:
    """Whoever says it again, and whatever is shipped in between. Only what comes of a session that moved later stays without need."""
    talks = Talks(home, chance)
    for number in range(30):
        talks.act(number)
        if chance.random() < 0.2 or number == 29:
            for talk in talks.all:
                home.write(talk.session)
            shipped, texts = home.shipped(), str(home.texts())
            assert "insecret" not in texts
            assert not shipped & {talk.session.id for talk in talks.all if talk.is_secret}
            assert all(talk.session.id in shipped for talk in talks.all[:1] if not talk.is_secret)
    home.check_counts()
