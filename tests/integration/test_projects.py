"""A `.sesameignore` in a project: nothing is kept of the sessions that worked there, whatever agent they are of; without it all is back."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.daemon import Daemon, eventually
from tests.support.gemini import GeminiSession
from tests.support.opencode import EVENTS, SCHEMA, OpenCodeSession
from tests.support.owner import Owner
from tests.support.sessions import PiSession

SECRET = "zanzibarcode"  # stands in every session of the private project
IDS = {
    agent: f"{number}a1e0000-0000-4000-8000-000000000001"
    for number, agent in enumerate(("claude", "codex", "gemini"), 1)
}


class Projects:
    """A private project and a public one."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.private, self.public = daemon.directory / "private", daemon.directory / "public"
        for place in (self.private, self.public):
            (place / ".git").mkdir(parents=True)
        self.file = self.private / ".sesameignore"

    def write(self, name: str, place: Path, text: str = f"the {SECRET}") -> str:
        """A session of pi there."""
        return self.daemon.write(f"{name}.jsonl", PiSession(id=name, cwd=str(place)).user(text).bytes())

    def ignore(self, text: str = "*\n") -> None:
        """Write the private project's file, and have it heeded."""
        self.file.write_text(text)
        self.daemon.call("index")

    def allow(self) -> None:
        """Remove it again."""
        self.file.unlink()
        self.daemon.call("index")

    def ids(self) -> list[str]:
        """The sessions that there are."""
        return sorted(session["sessionId"] for session in self.daemon.sessions())

    def count(self) -> int:
        """How many there are, subagents among them."""
        return int(self.daemon.call("status")["counts"]["sessions"])

    def excluded(self) -> list[tuple[str, int]]:
        """What `status` says of it."""
        return [(found["path"], found["sessions"]) for found in self.daemon.call("status")["excluded"]]


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon({"sweepSeconds": 86_400}) as started:
        yield started


@pytest.fixture
def projects(daemon: Daemon) -> Projects:
    return Projects(daemon)


def check_nothing_kept(daemon: Daemon, word: str = SECRET) -> None:
    """In no answer, no file of the daemon's, and not in its log."""
    assert daemon.found(word) == []
    files = [path for path in daemon.data_dir.rglob("*") if path.is_file()]
    assert [path.name for path in files if word.encode() in path.read_bytes()] == []
    assert word not in daemon.log


def test_what_was_never_indexed_never_is(projects: Projects) -> None:
    """Not at first, not when it grows, not after a restart; nothing of it is anywhere but in its file."""
    daemon = projects.daemon
    projects.file.write_text("*\n")
    projects.write("secret-1", projects.private)
    projects.write("secret-2", projects.private / "src")
    projects.write("open-1", projects.public, "a quince")
    daemon.sync()
    assert projects.ids() == ["open-1"]
    assert projects.excluded() == [(str(projects.file), 2)]
    path = daemon.append("secret-1.jsonl", PiSession(id="secret-1").user(f"more of the {SECRET}").last_line())
    assert daemon.sync(paths=[path])["ignored"] == []
    daemon.sync()
    status = daemon.call("status")
    assert status["counts"]["sessions"] == status["counts"]["messages"] == status["counts"]["files"] == 1
    assert status["pending"] == {"files": 0, "bytes": 0}
    check_nothing_kept(daemon)
    daemon.restart()
    assert projects.ids() == ["open-1"]
    assert projects.excluded() == [(str(projects.file), 2)]
    daemon.call("index", full=True)
    assert projects.ids() == ["open-1"]
    check_nothing_kept(daemon)


def test_what_was_indexed_goes_and_comes_back(projects: Projects) -> None:
    """With the next sweep, or `index`; clients that follow are told why."""
    daemon = projects.daemon
    path = projects.write("secret-1", projects.private)
    projects.write("open-1", projects.public, "a quince")
    daemon.sync()
    before, revision = daemon.everything(), daemon.call("list_sessions")["revision"]
    projects.ignore()
    assert projects.ids() == ["open-1"]
    assert daemon.found(SECRET) == []
    (removed,) = daemon.call("list_sessions", since=revision)["removed"]
    assert (removed["sessionId"], removed["why"]) == ("secret-1", "excluded")
    daemon.append("secret-1.jsonl", PiSession(id="secret-1").user(f"later the {SECRET} medlar").last_line())
    assert daemon.sync(paths=[path])["pending"]["files"] == 0
    assert daemon.found("medlar") == []
    projects.allow()
    assert daemon.found("medlar") == ["secret-1"]
    assert projects.excluded() == []
    daemon.write("secret-1.jsonl", Path(path).read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    daemon.sync()
    assert daemon.everything() == before
    daemon.check_index()


def test_a_sweep_is_enough() -> None:
    """Nobody has to ask."""
    with Daemon({"sweepSeconds": 1}) as daemon:
        projects = Projects(daemon)
        projects.write("secret-1", projects.private)
        eventually(lambda: projects.ids() == ["secret-1"])
        projects.file.write_text("*")
        eventually(lambda: projects.ids() == [])
        projects.file.unlink()
        eventually(lambda: daemon.found(SECRET) == ["secret-1"])


def test_what_changes_while_it_does_not_run_counts_from_the_first_answer_on(projects: Projects) -> None:
    """Excluded or not."""
    daemon = projects.daemon
    projects.write("secret-1", projects.private)
    daemon.sync()
    daemon.stop()
    projects.file.write_text("*")
    daemon.start()
    assert daemon.found(SECRET) == []
    daemon.kill()
    daemon.start()
    assert daemon.found(SECRET) == []
    daemon.stop()
    projects.file.unlink()
    daemon.start()
    daemon.sync()
    assert daemon.found(SECRET) == ["secret-1"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", []),
        ("*", []),
        ("/\n", []),
        (".\n", []),
        ("**", []),
        ("# nothing\n", ["at", "deep", "lib", "src"]),
        ("src\n", ["at", "lib"]),
        ("/src/\n", ["at", "lib"]),
        ("/deep/\n", ["at", "deep", "lib", "src"]),
        ("/*\n!/lib/\n", ["lib"]),
        ("/src/*\n!/src/deep/\n", ["at", "deep", "lib"]),
        ("*.md\n", ["at", "deep", "lib", "src"]),
    ],
)
def test_rules_are_those_of_git(projects: Projects, text: str, left: list[str]) -> None:
    """A session counts as a file in its directory; and an empty file can only mean all of the project."""
    for name, below in {"at": "", "lib": "lib", "src": "src", "deep": "src/deep"}.items():
        projects.write(name, projects.private / below, "a quince")
    projects.ignore(text)
    assert projects.ids() == left
    projects.allow()
    assert projects.ids() == ["at", "deep", "lib", "src"]


def test_rules_that_change_while_a_session_is_read(projects: Projects) -> None:
    """An editor empties the file before it writes it, and to be empty means everything: one round in sixty was read at that moment, and
    stayed out."""
    random = Random(3)
    for number in range(60):
        projects.ignore("")
        projects.write(str(number), projects.private / "src/deep", "a quince")
        time.sleep(random.uniform(0, 0.012))
        projects.ignore("*.md\n")
        assert projects.count() == number + 1


def test_files_below_the_top_and_of_the_main_worktree_count(projects: Projects) -> None:
    """From the session's directory up to the top of its worktree, and that of the main one; not above, and not without a repository."""
    linked, git_dir = projects.daemon.directory / "linked", projects.private / ".git/worktrees/linked"
    git_dir.mkdir(parents=True)
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {git_dir}\n")
    bare = projects.daemon.directory / "bare"
    (bare / "below").mkdir(parents=True)
    (bare / ".sesameignore").write_text("*")
    (projects.private / "src").mkdir()
    (projects.private / "src/.sesameignore").write_text("*")
    for name, place in {
        "linked": linked / "x", "bare": bare, "below": bare / "below", "src": projects.private / "src/a", "top": projects.private,
    }.items():  # fmt: skip
        projects.write(name, place, "a quince")
    projects.daemon.sync()
    assert projects.ids() == ["below", "linked", "top"]
    projects.ignore()
    assert projects.ids() == ["below"]


def test_links_do_not_lead_around_it(projects: Projects) -> None:
    """The directory may have been written with another name."""
    link = projects.daemon.directory / "link"
    link.symlink_to(projects.private)
    projects.write("by-link", link / "src")
    projects.ignore()
    assert projects.ids() == []


def test_a_project_that_is_away_stays_excluded(projects: Projects) -> None:
    """Its disk may not be mounted: the file that is not there does not say that it was removed."""
    daemon, away = projects.daemon, projects.daemon.directory / "away"
    projects.write("secret-1", projects.private)
    projects.ignore()
    projects.private.rename(away)
    daemon.call("index")
    assert projects.ids() == []
    daemon.restart()
    daemon.call("index")
    daemon.call("index", full=True)
    assert projects.ids() == []
    away.rename(projects.private)
    projects.allow()
    assert projects.ids() == ["secret-1"]
    projects.ignore()
    shutil.rmtree(projects.private)
    projects.private.mkdir()
    daemon.call("index")
    assert projects.ids() == ["secret-1"]


def test_a_file_that_cannot_be_read_takes_nothing_out_and_lets_nothing_in(projects: Projects) -> None:
    """Nobody knows what it says, and what is gone could not be read again."""
    projects.write("known", projects.private, "a quince")
    projects.daemon.sync()
    os.mkfifo(projects.file)
    projects.daemon.call("index")
    projects.write("new", projects.private, "a quince")
    projects.daemon.sync()
    assert projects.ids() == ["known"]
    (found,) = projects.daemon.call("status")["excluded"]
    assert found == {"path": str(projects.file), "sessions": 1, "trouble": "no regular file"}


def test_sessions_whose_files_are_gone_go_too(projects: Projects) -> None:
    """For good: nothing can be read again."""
    path = projects.write("secret-1", projects.private)
    projects.daemon.sync()
    os.unlink(path)
    projects.daemon.sync()
    assert projects.ids() == ["secret-1"]
    projects.ignore()
    projects.allow()
    assert projects.ids() == []


def test_it_is_not_heeded_if_that_is_configured(projects: Projects) -> None:
    """As by default on macOS, where looking into a project may ask the user for permission."""
    daemon = projects.daemon
    projects.write("secret-1", projects.private)
    projects.ignore()
    assert projects.ids() == []
    daemon.stop()
    daemon.configure({"sources": [{"parser": "pi", "path": str(daemon.root)}], "projectIgnoreFiles": False})
    daemon.start()
    daemon.sync()
    assert projects.ids() == ["secret-1"]


def test_a_subagent_that_was_read_first_goes_with_its_session(projects: Projects) -> None:
    """It worked elsewhere, so only its session tells."""
    daemon = projects.daemon
    name = PiSession(id="2026-parent").file_name.removesuffix(".jsonl")
    worker = PiSession(id="worker-1", cwd=str(projects.public)).user(f"the {SECRET}")
    daemon.write(f"{name}/{worker.file_name}", worker.bytes())
    daemon.sync()
    assert projects.ids() == ["worker-1"]
    projects.file.write_text("*")
    daemon.write(f"{name}.jsonl", PiSession(id="2026-parent", cwd=str(projects.private)).user(f"a {SECRET}").bytes())
    daemon.sync()
    assert daemon.found(SECRET) == []
    assert projects.excluded() == [(str(projects.file), 2)]
    projects.allow()
    assert projects.count() == 2


def test_a_directory_that_is_told_late_counts(projects: Projects) -> None:
    """Until then there is a session; then nothing of it is kept."""
    daemon = projects.daemon
    projects.file.write_text("*")
    session = ClaudeSession(cwd=str(projects.private)).title("Before")
    daemon.stop()
    daemon.configure({"sources": [{"parser": "claude", "path": str(daemon.root)}], "sweepSeconds": 86_400})
    daemon.start()
    daemon.write(session.file_name, session.bytes())
    daemon.sync()
    assert projects.ids() == [session.id]
    daemon.append(session.file_name, session.user(f"a {SECRET}").last_line())
    daemon.sync()
    check_nothing_kept(daemon)
    assert projects.ids() == []
    assert projects.excluded() == [(str(projects.file), 1)]


def test_a_fork_elsewhere_stays(projects: Projects) -> None:
    """It is a transcript of its own, whatever it has copied."""
    daemon = projects.daemon
    parent = PiSession(id="parent-1", cwd=str(projects.private)).user("a quince").assistant("baked")
    fork = parent.fork(id="fork-1").moved(str(projects.public))
    for session in (parent, fork):
        daemon.write(f"{session.id}.jsonl", session.bytes())
    daemon.sync()
    projects.ignore()
    assert projects.ids() == daemon.found("quince") == ["fork-1"]
    assert len(daemon.texts("fork-1")) == 2


def test_killed_while_it_takes_out(projects: Projects) -> None:
    """Whenever that is, the next start ends what was begun."""
    daemon = projects.daemon
    for number in range(40):
        projects.write(f"secret-{number}", projects.private)
    projects.write("open-1", projects.public, "a quince")
    daemon.sync()
    for text in ("*", None) * 4:
        if text is None:
            projects.file.unlink()
        else:
            projects.file.write_text(text)
        with daemon.connect() as client:
            client.send("index")
        daemon.kill()
        daemon.start()
        if text is not None:
            assert projects.ids() == ["open-1"]
    daemon.sync()
    assert projects.count() == 41
    daemon.check_index()


def test_no_own_session_is_begun_there(projects: Projects) -> None:
    """It could not be found again."""
    projects.file.write_text("*")
    refusal = projects.daemon.refuses("new_session", cwd=str(projects.private / "src"), title=SECRET)
    assert str(projects.file) in refusal.message
    begun = projects.daemon.call("new_session", cwd=str(projects.public))
    projects.daemon.call("append_message", sessionId=begun["sessionId"], role="user", text="a quince")
    assert projects.daemon.found("quince") == [begun["sessionId"]]


def _write_claude(home: Path, cwd: str) -> None:
    directory = _make(home / ".claude/projects/p")
    ClaudeSession(id=IDS["claude"], cwd=cwd).user(f"a {SECRET}").title(f"All about {SECRET}").write(directory)
    subagent = ClaudeSession(id=IDS["claude"], cwd="/elsewhere", agent="a1")
    below = _make(directory / IDS["claude"] / "subagents")
    subagent.user(f"the {SECRET}", isSidechain=True, agentId="a1").write(below)
    (below / "agent-a1.meta.json").write_text(f'{{"description": "looks for {SECRET}"}}')


def _write_codex(home: Path, cwd: str) -> None:
    session = CodexSession(id=IDS["codex"], cwd=cwd).user(f"a {SECRET}")
    session.write(_make(home / ".codex/sessions/2026/03/01"))
    other = CodexSession(id="019e0000-0000-7000-8000-0000000000ff", cwd="/elsewhere").user("a quince")
    other.write(home / ".codex/sessions/2026/03/01")
    lines = [f'{{"id":"{one.id}","thread_name":"{name}"}}\n' for one, name in ((session, SECRET), (other, "The other"))]
    (home / ".codex/session_index.jsonl").write_text("".join(lines))


def _write_gemini(home: Path, cwd: str) -> None:
    session = GeminiSession(id=IDS["gemini"], cwd=cwd).user(f"a {SECRET}")
    path = home / ".gemini/tmp" / session.path
    path.parent.mkdir(parents=True)
    path.write_bytes(session.bytes())


def _write_opencode(home: Path, cwd: str) -> None:
    with Owner(_make(home / ".local/share/opencode") / "opencode.db", tables=False) as owner:
        for statement in (*SCHEMA.split(";"), EVENTS):
            if statement.strip():
                owner.run(statement)
        for session in (
            OpenCodeSession(id="ses_1", cwd=cwd, title=SECRET).user(f"a {SECRET}"),
            OpenCodeSession(id="ses_2", cwd="/elsewhere", title=SECRET, parent="ses_1").user(f"its {SECRET}"),
            OpenCodeSession(id="ses_3", cwd="/elsewhere", title="Other").user("a quince"),
        ):
            for sql, values in session.statements():
                owner.run(sql, *values)
            owner.run("REPLACE INTO event_sequence VALUES(?, 1, '')", session.id)


def _make(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


AGENTS: dict[str, tuple[Callable[[Path, str], None], int, int]] = {  # with sessions that are excluded, and that are not
    "claude": (_write_claude, 2, 0),
    "codex": (_write_codex, 1, 1),
    "gemini": (_write_gemini, 1, 0),
    "opencode": (_write_opencode, 2, 1),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_all_that_belongs_to_a_session_is_excluded_with_it(agent: str) -> None:
    """Its subagents wherever they worked, and what other files say of it; in databases and documents as well."""
    write, excluded, others = AGENTS[agent]
    with Daemon(None) as daemon:
        projects = Projects(daemon)
        projects.file.write_text("*")
        write(daemon.home, str(projects.private))
        daemon.sync()
        assert daemon.found(SECRET) == []
        assert projects.count() == others
        assert projects.excluded() == [(str(projects.file), excluded)]
        daemon.call("index", full=True)
        check_nothing_kept(daemon)
        projects.allow()
        everything: list[Any] = daemon.everything()
        assert projects.count() == excluded + others
        assert daemon.found(SECRET) != []
        daemon.call("index", full=True)
        assert daemon.everything() == everything
        projects.ignore()
        assert projects.count() == others
        assert daemon.found(SECRET) == []
        daemon.restart()
        assert projects.excluded() == [(str(projects.file), excluded)]
        projects.allow()
        assert daemon.everything() == everything
        daemon.check_index()


BREAKS = """
import os, sys
really = os.stat
def stat(path, *args, **named):
    if str(path).endswith("/private") and os.path.lexists(f"{path}/fault"):
        raise RuntimeError("the file system is beside itself")
    return really(path, *args, **named)
os.stat = stat
from sesamed.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_fault_in_one_project_keeps_no_daemon_from_starting() -> None:
    """It is said, but not in its own words, all else goes on, and each sweep tries again."""
    with Daemon({"sweepSeconds": 1}, program=("-c", BREAKS)) as daemon:
        daemon.allowed.append("internal error")
        projects = Projects(daemon)
        projects.write("a", projects.private)
        projects.write("b", projects.public)
        daemon.sync()
        daemon.stop()
        projects.file.touch()
        (projects.private / "fault").touch()
        daemon.start()
        assert "b" in daemon.found(SECRET)
        (warning,) = eventually(lambda: daemon.call("status")["warnings"])
        assert warning["code"] == "internal"
        assert "`.sesameignore` of projects" in warning["message"]
        assert "beside itself" not in daemon.log + warning["message"]
        (projects.private / "fault").unlink()
        eventually(lambda: daemon.found(SECRET) == ["b"])
        eventually(lambda: daemon.call("status")["warnings"] == [])
