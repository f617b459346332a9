"""`resume`, `resolve` and `forget`: what is run, what is asked, what is refused."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl.cli import main
from sesamectl.commands import resume
from sesamectl.render import terminal
from tests.unit.ctl.conftest import Stub

HIT = {
    "sessionId": "abc",
    "name": "Fix\x1b[2J it",
    "source": "pi",
    "cwd": "/x",
    "modified": "2026-01-01T00:00:00.000Z",
    "messageCount": 3,
}
NO_TERMINAL = terminal.Terminal()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent that writes down how it was called."""
    program = tmp_path / "bin/agent"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$@" > "$SAID"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    return tmp_path / "said"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(stub: Stub, command: Any, cwd: Any, **more: Any) -> None:
    """The daemon says how the session is resumed."""
    resume = None if command is None else {"command": command, "cwd": cwd, "unarchive": more.pop("unarchive", None)}
    stub.on("resolve_session", HIT)
    stub.on("get_session_meta", {**HIT, "resume": resume, **more})


def ran(*words: str) -> int:
    """The exit code of a `resume` in a process of its own, which becomes the agent."""
    child = os.fork()
    if not child:
        os._exit(main(["resume", *words]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_the_agent_is_run_in_the_sessions_directory(
    stub: Stub, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its words as they are: nothing of them is a shell's."""
    there = tmp_path / "a b"
    there.mkdir()
    told(stub, ["agent", "--resume", "$(touch x); 'y'"], str(there))
    monkeypatch.chdir(tmp_path)
    assert ran("abc") == 0
    assert agent.read_text().splitlines() == [str(there), "--resume", "$(touch x); 'y'"]


def test_elsewhere_is_asked_for(
    stub: Stub, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal nobody can be asked, so that it is refused; `--yes` says it beforehand."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    told(stub, ["agent"], str(there))
    monkeypatch.chdir(here)
    assert main(["resume", "abc"]) == 4
    said = capsys.readouterr().err
    assert str(there) in said
    assert "--yes" in said
    assert not agent.exists()
    assert ran("abc", "--yes") == 0
    assert agent.read_text().splitlines() == [str(there)]


@pytest.mark.parametrize(
    ("command", "cwd", "why"),
    [
        (None, None, "cannot resume session"),
        ([], "{tmp}", "cannot be shown"),
        (["agent", "\x1b[2J"], "{tmp}", "cannot be shown"),
        (["agent", 3], "{tmp}", "cannot be shown"),
        ("agent", "{tmp}", "cannot be shown"),
        (["agent"], "{tmp}/none", "does not exist"),
        (["agent"], "relative", "does not exist"),
        (["no-such-agent"], "{tmp}", "not installed"),
    ],
)
def test_what_is_refused(
    stub: Stub, here: Path, command: Any, cwd: Any, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 4, and before anything is run."""
    told(stub, command, cwd and cwd.replace("{tmp}", str(here)))
    assert main(["resume", "abc"]) == 4
    assert why in capsys.readouterr().err


GONE = {"code": "directoryGone", "message": "its directory does not exist: /x\x1b[2J"}
SUBAGENT = {"code": "subagent", "message": "Claude Code cannot resume the session of a subagent"}


@pytest.mark.parametrize(
    ("more", "flags", "why"),
    [
        ({}, (), "abc: its file or directory is gone or not yours, or its agent has no command for it"),
        ({"resumeProblem": GONE}, (), "abc: its directory does not exist: /x"),
        (
            {"resumeProblem": GONE, "resumeHere": ["agent"]},
            (),
            "abc: its directory does not exist: /x; to continue it in the current directory, pass --here",
        ),
        ({"resumeProblem": SUBAGENT}, (), "abc: Claude Code cannot resume the session of a subagent"),
        (
            {"resumeProblem": SUBAGENT, "parentSessionId": "p-1"},
            (),
            "abc: Claude Code cannot resume the session of a subagent; it worked for session p-1",
        ),
        (
            {"resumeProblem": SUBAGENT, "parentSessionId": "p-1", "orphan": True},
            ("--here",),
            "abc: Claude Code cannot resume the session of a subagent",
        ),
        (
            {"resumeProblem": GONE},
            ("--here",),
            "abc here: pi resumes it only in its own directory, and its directory does not exist: /x",
        ),
        ({"resumeProblem": None}, ("--here",), "abc here: pi resumes it only in its own directory: /x"),
    ],
)
def test_it_says_why_not(
    stub: Stub, more: Any, flags: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with what can be done."""
    told(stub, None, None, **more)
    assert main(["resume", "abc", *flags]) == 4
    assert capsys.readouterr().err == f"sesamectl: cannot resume session {why}\n"


def test_here_is_the_current_directory(
    stub: Stub, agent: Path, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the agent's command for that; nothing is asked, for the person is there."""
    told(stub, None, None, resumeProblem=GONE, resumeHere=["agent", "--session", "f"])
    assert ran("abc", "--here") == 0
    assert agent.read_text().splitlines() == [str(here), "--session", "f"]
    told(stub, ["agent"], str(tmp_path), resumeHere=["agent", "--cd", "."])
    assert main(["resume", "abc", "--here", "--print"]) == 0
    assert capsys.readouterr().out == f"cd -- {here} && agent --cd .\n"
    told(stub, None, None, resumeProblem=GONE, resumeHere=["agent", "\x1b[2J"])
    assert main(["resume", "abc", "--here"]) == 4
    assert "cannot be shown" in capsys.readouterr().err


def test_the_current_directory_may_be_gone(
    stub: Stub, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is below it, so it is asked as elsewhere; and nothing can be continued in it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    told(stub, ["agent"], str(tmp_path), resumeHere=["agent", "--cd", "."])
    assert main(["resume", "abc"]) == 4
    assert "not below the current one: go there, or pass --yes\n" in capsys.readouterr().err
    assert main(["resume", "abc", "--here"]) == 4
    why = "the current directory does not exist any more"
    assert capsys.readouterr().err == f"sesamectl: cannot resume session abc here: {why}\n"
    assert ran("abc", "--yes") == 0
    assert agent.read_text().splitlines() == [str(tmp_path)]


def test_an_archived_session_is_told(stub: Stub, here: Path, agent: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """How it is taken out of the archive, before its agent asks."""
    told(stub, ["agent"], str(here), unarchive=["agent", "unarchive", "abc"])
    assert ran("abc") == 0
    assert "This session is archived. To take it out of the archive: agent unarchive abc\n" in capfd.readouterr().err
    assert agent.exists()


def test_a_program_that_cannot_be_run(stub: Stub, here: Path, agent: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its interpreter is missing."""
    (here / "bin/agent").write_text("#!/no/such/interpreter\n")
    told(stub, ["agent"], str(here))
    assert ran("abc") == 4
    assert f"{here}/bin/agent cannot be run: No such file or directory\n" in capfd.readouterr().err


def test_another_ones_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in it may be a trap."""
    assert resume.is_own_directory(str(tmp_path))
    monkeypatch.setattr("sesamectl.commands.resume.os.geteuid", lambda: os.getuid() + 1)
    assert not resume.is_own_directory(str(tmp_path))


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Co", "Cn"]), min_size=1), min_size=1
    )
)
def test_what_is_printed_is_what_a_shell_reads(words: list[str]) -> None:
    """Whatever characters there are."""
    printed = "\n".join(resume._shell_line({"command": words, "cwd": words[0]}, NO_TERMINAL))
    assert shlex.split(printed) == ["cd", "--", words[0], "&&", *words]


def test_resolve_prints_an_id_for_scripts(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The candidates, where several fit."""
    stub.on("resolve_session", HIT)
    assert main(["resolve", "fix"]) == 0
    assert capsys.readouterr().out == "abc\n"
    assert stub.asked[-1]["params"] == {"ref": "fix", "cwd": os.getcwd()}
    assert main(["resolve", "fix", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == HIT


def test_candidates_are_named(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """In the same line, cleaned and short."""
    long = {"sessionId": "abe-123", "shortId": "abe", "name": "Fix " * 99}
    stub.fail(2, "'fix' fits 3 sessions", {"sessions": [HIT, {"sessionId": "abd", "name": None}, long]})
    assert main(["resolve", "fix"]) == 4
    named = f"abc (Fix it, 2026-01-01 00:00), abd, abe ({('Fix ' * 10)[:39]}…)"
    assert capsys.readouterr().err == f"sesamectl: 'fix' fits 3 sessions: {named}\n"


def test_show_takes_names(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """When no id begins so."""
    page = {"sessionId": "abc", "total": 0, "nextOffset": None, "messages": []}
    stub.on("list_messages", 1, page)
    stub.on("resolve_session", HIT)
    stub.on("get_session_meta", {**HIT, "created": HIT["modified"]})
    assert main(["show", "fix it"]) == 0
    assert "abc" in capsys.readouterr().out
    assert [asked["params"].get("sessionId") for asked in stub.asked] == ["fix it", None, "pi:abc", "pi:abc"]


def test_the_session_that_asks_is_left_out(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the words of its own question."""
    stub.on("search", {"query": "x", "resultCount": 1, "results": [], "words": []})
    monkeypatch.setenv("PI_SESSION_ID", "me")
    assert main(["search", "x"]) == 0
    assert (stub.methods(), stub.asked[0]["params"]["exclude"]) == (["search"], ["me"])


@pytest.mark.parametrize(("command", "method"), [("search", "search"), ("list", "list_sessions")])
def test_whoever_is_left_out_may_be_called_as_anywhere(stub: Stub, command: str, method: str) -> None:
    """By a short id, as a search prints it, or a name. One that is not in the index may be still; one of several is asked back."""
    found = {"query": "", "resultCount": 1, "results": [], "words": [], "total": 1, "sessions": []}
    stub.on(method, found)
    stub.on("resolve_session", {"sessionId": "abc-123"}, 1, 2)
    assert main([command, "--exclude", "abc", "--exclude", "new"]) == 0
    assert stub.asked[-1]["params"]["exclude"] == ["abc-123", "new"]
    assert main([command, "--exclude", "twin"]) == 4


def test_forgetting_is_asked_for(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Counted first; without a terminal only with `--yes`."""
    stub.on("forget", {"sessions": 2, "chunks": 9})
    assert main(["forget", "--source", "pi"]) == 4
    assert main(["forget", "--source", "pi", "--dry-run"]) == 0
    assert capsys.readouterr().out == "2 sessions with 9 indexed texts would be forgotten\n"
    assert main(["forget", "--source", "pi", "--yes"]) == 0
    assert [asked["params"].get("dryRun") for asked in stub.asked] == [True, True, True, None]
    assert main(["forget"]) == main(["forget", "a", "--source", "pi"]) == 2
