"""`resolve_session` and `resume`: which session is meant, and how it is taken up again, over the real socket."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import SESAMECTL, environ
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.daemon import Daemon
from tests.support.library import APP, CHILD, FIX, FORK, PARENT, SUB, Library
from tests.support.mcp import Talk
from tests.support.sessions import PiSession


def resolved(daemon: Daemon, ref: str, **params: Any) -> str:
    answer = daemon.call("resolve_session", ref=ref, **params)
    return str(answer["sessionId"])


@pytest.mark.parametrize(
    ("ref", "session"),
    [
        (APP, APP),
        (f"pi:{APP}", APP),
        (FIX[:6], FIX),
        ("quince-in-a-worktree", FIX),
        ("QUINCE in_a... Worktree", FIX),
        ("worktree", FIX),
        ("quince below", SUB),
        ("beside", "dddddddd-0000-7000-8000-000000000001"),
        ("quince worktre", FIX),
        ("wrktree", FIX),
        (CHILD, CHILD),
        (f"{CHILD}~1", PARENT),
        (f"{CHILD}~", PARENT),
        (f"{CHILD}~0", CHILD),
        (f"{FORK}~1", APP),
        ("ffff~1", PARENT),
    ],
)
def test_what_is_meant(library: Library, ref: str, session: str) -> None:
    """An id, the beginning of one, a name or something like it, and its ancestors."""
    assert resolved(library.daemon, ref) == session


def test_the_answer_is_a_summary(library: Library) -> None:
    """As lists show it."""
    answer = library.daemon.call("resolve_session", ref=FIX)
    assert answer == next(s for s in library.daemon.call("list_sessions")["sessions"] if s["sessionId"] == FIX)


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "   ",
        "~",
        "~1",
        "%",
        "nothing like it",
        "aaaa~9",
        f"{APP}~1",
        f"{CHILD}~2",
        "\x1b[31m",
        "pi:",
        "x" * 9999,
    ],
)
def test_nothing_is_meant(library: Library, ref: str) -> None:
    """What fits none is refused with 1, or with 2 where the rest fits several."""
    refusal = library.daemon.refuses("resolve_session", ref=ref)
    assert refusal.code == (2 if ref == "aaaa~9" else 1)
    assert "\x1b" not in refusal.message
    assert len(refusal.message) < 1000


def test_several_are_meant(library: Library) -> None:
    """They are listed, with what tells them apart."""
    refusal = library.daemon.refuses("resolve_session", ref="aaaaaaaa")
    assert refusal.code == 2
    assert refusal.data["candidates"] == [APP, FORK]
    assert [(session["sessionId"], session["name"]) for session in refusal.data["sessions"]] == [
        (APP, "Simplify the flake setup"),
        (FORK, "Simplify the flake setup"),
    ]
    for session in refusal.data["sessions"]:
        assert library.daemon.call("resolve_session", ref=session["shortId"])["sessionId"] == session["sessionId"]
    assert set(library.daemon.refuses("resolve_session", ref="simplify-the-flake-setup").data["candidates"]) == {
        APP,
        FORK,
    }


def test_the_own_project_is_preferred() -> None:
    """Of sessions that are called the same, the one of the asking directory is meant; its worktrees are the same project."""
    with Daemon() as daemon:
        library = Library(daemon)
        for number, place in enumerate(("app-fix", "other", "apple")):
            session = PiSession(id=f"here-{number}", cwd=library.cwd(place)).user("x").name("Fix the build")
            daemon.write(f"here/{number}.jsonl", session.bytes())
        daemon.sync()
        meant = {"app-fix": "here-0", "app": "here-0", "app/sub": "here-0", "other": "here-1", "apple": "here-2"}
        for place, session_id in meant.items():
            assert resolved(daemon, "fix the build", cwd=library.cwd(place)) == session_id
        refusal = daemon.refuses("resolve_session", ref="fix the build", cwd="/nowhere")
        assert set(refusal.data["candidates"]) == {"here-0", "here-1", "here-2"}
        assert resolved(daemon, "quince in a worktree", cwd="/nowhere") == FIX
        assert daemon.refuses("resolve_session", ref="fix the build", cwd="relative").code == 7


def test_a_name_before_a_part_of_several_ids(library: Library) -> None:
    """Somebody who writes a whole name did not mean the beginning of an id."""
    daemon = library.daemon
    for name in ("fig-1", "fig-2"):
        daemon.write(f"{name}.jsonl", PiSession(id=name).user("nothing").bytes())
    daemon.write("named.jsonl", PiSession(id="zzz-1").user("x").name("Fig").bytes())
    daemon.sync()
    assert resolved(daemon, "fig") == "zzz-1"


# -- taking sessions up again


@pytest.fixture(scope="module")
def agents() -> Iterator[Daemon]:
    with Daemon(None) as daemon:
        yield daemon


def resume(daemon: Daemon, session: str) -> Any:
    return daemon.call("get_session_meta", sessionId=session)["resume"]


def problem(daemon: Daemon, session: str) -> str:
    """Its code; there is one exactly when there is no command."""
    meta = daemon.call("get_session_meta", sessionId=session)
    assert meta["resume"] is None
    return str(meta["resumeProblem"]["code"])


def put(daemon: Daemon, relative: str, data: bytes) -> Path:
    path = daemon.home / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    daemon.sync()
    return path


def test_each_agent_has_its_command(agents: Daemon) -> None:
    """As a list of words, to be run in the session's directory."""
    cwd = str(agents.home)
    pi = put(agents, ".pi/agent/sessions/a b$c.jsonl", PiSession(id="pi-1", cwd=cwd).user("x").bytes())
    assert resume(agents, "pi-1") == {"command": ["pi", "--session", str(pi)], "cwd": cwd, "unarchive": None}
    claude = ClaudeSession(id="5a1e0000-0000-4000-8000-000000000001", cwd=cwd).user("x")
    put(agents, f".claude/projects/-p/{claude.file_name}", b"\n".join([*claude.lines(), b""]))
    assert resume(agents, claude.id) == {"command": ["claude", "--resume", claude.id], "cwd": cwd, "unarchive": None}
    codex = CodexSession(id="019e0000-0000-7000-8000-000000000001", cwd=cwd).turn().user("x")
    put(agents, f".codex/sessions/2026/03/01/{codex.file_name}", codex.bytes())
    assert resume(agents, codex.id) == {"command": ["codex", "resume", codex.id], "cwd": cwd, "unarchive": None}


@pytest.mark.parametrize("session", ["-rf", "a b", "a;b", "$(x)", "é", "../x", "a\nb"])
def test_an_id_that_is_no_plain_word_is_not_offered(agents: Daemon, session: str) -> None:
    """Whoever wrote the file chose it."""
    data = PiSession(id=session, cwd=str(agents.home)).user("x").bytes()
    put(agents, f".pi/agent/sessions/odd-{len(session)}-{ord(session[0])}.jsonl", data)
    assert problem(agents, session) == "unsafe"


@pytest.mark.parametrize(
    ("cwd", "code"),
    [
        ("/nowhere/at/all", "directoryGone"),
        ("relative", "directoryUnknown"),
        ("", "directoryUnknown"),
        ("/etc/passwd", "directoryGone"),
    ],
)
def test_a_directory_that_is_none_is_not_offered(agents: Daemon, cwd: str, code: str) -> None:
    """It has to be there. pi can go on elsewhere."""
    path = put(agents, ".pi/agent/sessions/elsewhere.jsonl", PiSession(id="elsewhere-1", cwd=cwd).user("x").bytes())
    assert problem(agents, "elsewhere-1") == code
    here = agents.call("get_session_meta", sessionId="elsewhere-1")["resumeHere"]
    assert here == ["pi", "--session", str(path)]


def test_a_directory_of_somebody_else_is_not_offered(agents: Daemon) -> None:
    """Somebody else may have put there what the agent would run."""
    theirs = Path("/usr")
    if os.geteuid() == 0:
        theirs = agents.directory / "theirs"
        theirs.mkdir()
        os.chown(theirs, 1, 1)
    put(agents, ".pi/agent/sessions/theirs.jsonl", PiSession(id="theirs-1", cwd=str(theirs)).user("x").bytes())
    assert problem(agents, "theirs-1") == "directoryNotYours"


def test_a_session_without_its_file_is_not_offered(agents: Daemon) -> None:
    """There is nothing left to take up; a subagent of Claude's cannot be either."""
    path = put(agents, ".pi/agent/sessions/gone.jsonl", PiSession(id="gone-1", cwd=str(agents.home)).user("x").bytes())
    assert resume(agents, "gone-1") is not None
    path.unlink()
    agents.sync()
    assert problem(agents, "gone-1") == "fileGone"
    child = ClaudeSession(id="5a1e0000-0000-4000-8000-000000000001", agent="0abc", cwd=str(agents.home)).user("x")
    put(agents, f".claude/projects/-p/{child.id}/subagents/{child.file_name}", b"\n".join([*child.lines(), b""]))
    assert problem(agents, "agent-0abc") == "subagent"


def test_an_archived_session_says_so(agents: Daemon) -> None:
    """And how it is taken out; when it is, it is none any more."""
    codex = CodexSession(id="019e0000-0000-7000-8000-000000000002", cwd=str(agents.home)).turn().user("x")
    path = put(agents, f".codex/sessions/2026/03/01/{codex.file_name}", codex.bytes())
    assert agents.call("get_session_meta", sessionId=codex.id)["archived"] is False
    archived = agents.home / ".codex/archived_sessions" / codex.file_name
    archived.parent.mkdir(exist_ok=True)
    path.rename(archived)
    agents.sync()
    meta = agents.call("get_session_meta", sessionId=codex.id)
    assert (meta["archived"], meta["gone"]) == (True, False)
    assert meta["resume"]["unarchive"] == ["codex", "unarchive", codex.id]
    archived.rename(path)
    agents.sync()
    meta = agents.call("get_session_meta", sessionId=codex.id)
    assert (meta["archived"], meta["resume"]["unarchive"]) == (False, None)


def test_a_key_names_a_session_wherever_an_id_does() -> None:
    """Also after the workstation has another id, which `status` says until the next start."""
    with Daemon() as daemon:
        daemon.write("one.jsonl", PiSession(id="one").user("the quince").bytes())
        daemon.sync()
        made = daemon.call("new_session", title="Ours")["sessionId"]
        daemon.allowed.append("WARNING sesamed.daemon the workstation's id is")
        station = daemon.call("status")["workstation"]
        assert station["origin"] == "machine"
        ours, key = (daemon.call("get_session_meta", sessionId=name)["key"] for name in (made, "one"))
        assert key.startswith(station["id"] + ":")
        for environ, origin in (({"WORKSTATION_ID": "0badcafe"}, "WORKSTATION_ID"), ({}, "machine")):
            daemon.extra_environ = environ
            daemon.restart().sync()
            status = daemon.call("status")
            assert [warning["code"] for warning in status["warnings"]] == ["workstation"]
            assert status["workstation"]["origin"] == origin
            assert daemon.call("resolve_session", ref=key)["key"].startswith(
                environ.get("WORKSTATION_ID", station["id"])
            )
            assert daemon.texts(key) == ["the quince"]
            assert daemon.call("set_session_meta", sessionId=key, title=origin)["name"] == origin
            assert daemon.call("append_message", sessionId=ours, role="user", text=origin)["msgIdx"] == int(not environ)
            assert daemon.call("forget", sessionId=key, dryRun=True)["sessions"] == 1
            assert daemon.found("quince", exclude=[key]) == []
        assert daemon.restart().call("status")["warnings"] == []
        assert daemon.call("status")["workstation"]["id"] == station["id"]


SHARED = "eeeeeeee-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def twins() -> Iterator[Daemon]:
    """A session of Claude Code, and one of pi that was made from it and kept its id."""
    with Daemon() as daemon:
        sources = [{"parser": name, "path": str(daemon.root / name)} for name in ("pi", "claude")]
        daemon.stop()
        daemon.configure({"sources": sources})
        texts = PiSession(id=SHARED).user("the quince of pi")
        for number in range(300):
            texts.assistant(f"{number}")
        daemon.write("pi/one.jsonl", texts.bytes())
        session = ClaudeSession(id=SHARED).user("the quince of Claude").assistant("yes")
        daemon.write(f"claude/x/{session.file_name}", session.bytes())
        daemon.start().sync()
        yield daemon


@pytest.mark.parametrize(("source", "text"), [("pi", "the quince of pi"), ("claude", "the quince of Claude")])
def test_an_id_that_two_agents_share(twins: Daemon, source: str, text: str) -> None:
    """Every command takes it with the agent in front, as the refusal says."""

    def run(*words: str, code: int = 0) -> Any:
        ran = subprocess.run([*SESAMECTL, *words, "--json"], env=environ(twins), capture_output=True, check=False)
        assert ran.returncode == code, ran.stderr
        return json.loads(ran.stdout) if code == 0 else ran.stderr.decode()

    ref = f"{source}:{SHARED}"
    assert ref in run("show", SHARED, code=4)
    count = {"pi": 301, "claude": 2}[source]
    for name in (ref, ref[:-3], text):
        shown = run("show", name, "--limit", "250") if name != ref[:-3] else run("show", ref, "--all")
        assert (shown["session"]["source"], shown["session"]["messageCount"]) == (source, count)
        assert shown["messages"]["messages"][0]["text"] == text
    assert len(run("show", ref, "--limit", "250")["messages"]["messages"]) == min(count, 250)
    assert run("note", ref, "--title", f"T{source}")["source"] == source
    assert run("resume", "--print", ref, code=4).count("sesamectl: ") == 1
    assert run("forget", ref, "--dry-run")["sessions"] == 1
    with Talk(twins) as talk:
        for name in (ref, f"T{source}"):
            told = talk.ask("tools/call", name="read_session", arguments={"session": name})
            assert f"> {text}" in told["content"][0]["text"]


def test_a_session_that_is_called_like_anothers_reference_takes_nothing_of_it() -> None:
    """Agents name their sessions as they like. Windows, annotations and their conditions are of the session that is meant."""
    daemon = Daemon()
    try:
        daemon.write("meant.jsonl", PiSession(id="alpha").user("quince and medlar").assistant("yes").bytes())
        daemon.start().sync()
        key = daemon.call("get_session_meta", sessionId="alpha")["key"]
        for number, name in enumerate(("pi:alpha", key)):
            daemon.write(f"posing-{number}.jsonl", PiSession(id=name).user("a pear").assistant("no").bytes())
        daemon.sync()
        (hit,) = daemon.call("search_sessions", query="medlar")["hits"]
        assert (hit["sessionId"], hit["window"][0]["snippet"]) == ("alpha", "quince and medlar")
        generated = {"model": "m", "at": "2026-01-01T00:00:00.000Z", "upTo": 1}
        daemon.call("set_session_meta", sessionId="alpha", summary="one", generated=generated)
        again = {"ifGenerated": generated["at"], "generated": {**generated, "at": "2026-01-02T00:00:00.000Z"}}
        answer = daemon.call("set_session_meta", sessionId="alpha", summary="two", **again)
        assert (answer["sessionId"], answer["summary"]) == ("alpha", "two")
        for reference in ("pi:alpha", key):
            assert daemon.call("list_messages", sessionId=reference)["sessionId"] == "alpha"
            assert daemon.call("get_session_meta", sessionId=f"pi:{reference}")["sessionId"] == reference
        short = {session["sessionId"]: session["shortId"] for session in daemon.call("list_sessions")["sessions"]}
        assert short == {"alpha": "alpha", "pi:alpha": "pi:pi:alpha", key: f"pi:{key}"}
    finally:
        daemon.remove()
