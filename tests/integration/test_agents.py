"""The other agents through the same path as pi: Claude Code and Codex, found by themselves, copied history once."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamed.model import PROMPT_MARKER
from sesamed.sources import SOURCES
from tests.support.amp import AmpThread
from tests.support.claude import ClaudeSession
from tests.support.cline import ClineSession, ClineTask
from tests.support.codex import CodexSession
from tests.support.copilot import CopilotSession, history
from tests.support.crush import CrushSession, write_crush
from tests.support.cursor import CursorSession, write_chat, write_transcript
from tests.support.daemon import Daemon, eventually
from tests.support.droid import DroidSession
from tests.support.gemini import GeminiSession
from tests.support.goose import GooseSession, write_goose
from tests.support.kimi import KimiCliSession, KimiSession
from tests.support.opencode import OpenCodeSession
from tests.support.qwen import QwenSession
from tests.support.sessions import PiSession
from tests.support.watched import meta

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon without configuration."""
    with Daemon(None) as started:
        (started.home / ".claude/projects/-home-me-project").mkdir(parents=True)
        (started.home / ".codex/sessions/2026/03/01").mkdir(parents=True)
        (started.home / ".codex/archived_sessions").mkdir(parents=True)
        started.sync()
        yield started


def test_claude_code_is_found_by_itself(daemon: Daemon) -> None:
    """A session of Claude Code is searchable as it is written, with calls and results joined, and its title."""
    session = ClaudeSession().user("a quince tart").tool("Bash", {"command": "bake medlar"}, "burnt", error=True)
    path = session.title("The tart").write(daemon.home / ".claude/projects/-home-me-project")
    eventually(lambda: daemon.found("quince"))
    hit = daemon.call("search", query="bake burnt", source="claude", status="error")["results"][0]
    assert (hit["name"], hit["match"]["toolName"], hit["matchedWords"]) == ("The tart", "Bash", ["bake", "burnt"])
    with open(path, "ab") as file:
        file.write(session.user("and a salsify pie").last_line())
    eventually(lambda: daemon.found("salsify"))


def test_codex_is_found_by_itself(daemon: Daemon) -> None:
    """A rollout of Codex is searchable as it is written; an archived one, compressed, too."""
    session = CodexSession().user("a quince tart").assistant("baked")
    session.write(daemon.home / ".codex/sessions/2026/03/01")
    eventually(lambda: daemon.found("quince"))
    old = CodexSession(id="019e0000-0000-7000-8000-00000000000f", cwd=str(daemon.home)).user("a medlar jam")
    (daemon.home / ".codex/archived_sessions" / f"{old.file_name}.zst").write_bytes(zstd.compress(old.bytes()))
    eventually(lambda: daemon.found("medlar"))
    assert daemon.call("get_session_meta", sessionId=old.id)["resume"]["command"] == ["codex", "resume", old.id]


def test_qwen_code_is_found_by_itself(daemon: Daemon) -> None:
    """As it is written; an archived session is the one that it was, a fork has its parent, a subagent its task."""
    projects = daemon.home / ".qwen/projects"
    session = QwenSession(cwd=str(daemon.home)).user("a quince tart")
    path = session.write(projects / session.path)
    eventually(lambda: daemon.found("quince"))
    with open(path, "ab") as file:
        file.write(session.title("The tart").last_line())
        file.write(session.answer("with medlar").last_line())
    eventually(lambda: daemon.found("medlar"))
    fork = session.forked("9e200000-0000-4000-8000-000000000002").user("a salsify pie")
    fork.write(projects / fork.path)
    child = QwenSession(id="agent-x-c1", parent=session.id, cwd=str(daemon.home)).user("count the pears")
    child.write(projects / child.path)
    (projects / child.path.replace(".jsonl", ".meta.json")).write_text('{"description": "Count pears"}')
    eventually(lambda: daemon.found("pears", subagents="only"))
    eventually(lambda: meta(daemon, child.id)["name"] == "Count pears")
    archived = path.parent / "archive" / path.name
    archived.parent.mkdir()
    path.rename(archived)
    eventually(lambda: meta(daemon, session.id)["path"] == str(archived))
    shown = meta(daemon, session.id)
    assert (shown["name"], shown["cwd"], shown["gitBranch"]) == ("The tart", str(daemon.home), "orchard")
    assert shown["resume"]["command"] == ["qwen", "--resume", session.id]
    assert [meta(daemon, one.id)["parentSessionId"] for one in (fork, child)] == [session.id] * 2
    assert [hit["similar"] for hit in daemon.call("search", query="quince")["results"]] == [1]
    daemon.check_index()


def test_kimi_is_found_by_itself(daemon: Daemon) -> None:
    """Kimi Code's sessions and Kimi CLI's, with what stands beside them, whichever comes first."""
    new, old = daemon.home / ".kimi-code", daemon.home / ".kimi"
    session = KimiSession(cwd=None).user("a quince tart")
    path = session.write(new / "sessions" / session.path)
    eventually(lambda: daemon.found("quince"))
    with open(path, "ab") as file:
        file.write(session.answer("with medlar").lines()[-2] + b"\n")
    eventually(lambda: daemon.found("medlar"))
    index = {"sessionId": session.id, "sessionDir": "x", "workDir": str(daemon.home)}
    (new / "session_index.jsonl").write_text(json.dumps(index) + "\n")
    eventually(lambda: meta(daemon, session.id)["cwd"] == str(daemon.home))
    fork = session.forked("session_2").user("a salsify pie")
    fork.write(new / "sessions" / fork.path)
    state = fork.state(forkedFrom=session.id, title="Pie", titleKind="custom", createdAt=1772355700000)
    (new / "sessions" / fork.path).parents[2].joinpath("state.json").write_bytes(state)
    eventually(lambda: named(daemon).get(fork.id) == "Pie")
    assert meta(daemon, fork.id)["parentSessionId"] == session.id
    assert meta(daemon, session.id)["resume"]["command"] == ["kimi", "--session", session.id]
    assert [hit["similar"] for hit in daemon.call("search", query="quince")["results"]] == [1]
    before = KimiCliSession(cwd=str(daemon.home)).user("a plum jam")
    before.write(old / "sessions" / before.path)
    eventually(lambda: daemon.found("plum"))
    (old / "kimi.json").write_text(json.dumps({"work_dirs": [{"path": str(daemon.home), "kaos": "local"}]}))
    eventually(lambda: meta(daemon, before.id)["cwd"] == str(daemon.home))
    daemon.check_index()


def test_variables_move_the_directories_of_agents(tmp_path: Path) -> None:
    """Those of OpenClaw, Qwen Code and Kimi, and Qwen Code's own setting."""
    environ = {
        "OPENCLAW_STATE_DIR": str(tmp_path / "claw"),
        "QWEN_HOME": str(tmp_path / "qwen"),
        "KIMI_CODE_HOME": str(tmp_path / "kimi-code"),
        "KIMI_SHARE_DIR": str(tmp_path / "kimi"),
    }
    settings = {"advanced": {"runtimeOutputDir": str(tmp_path / "output")}}
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen/settings.json").write_text(json.dumps(settings))
    claw, kimi, cli = (
        PiSession(id="claw-1").user("plum"),
        KimiSession(id="kimi-1").user("plum"),
        KimiCliSession(id="kimi-2"),
    )
    qwen, moved = QwenSession(id="qwen-1").user("plum"), QwenSession(id="qwen-2").user("plum")
    claw.write(tmp_path / "claw/agents/main/sessions/claw-1.jsonl")
    qwen.write(tmp_path / "qwen/projects" / qwen.path)
    moved.write(tmp_path / "output/projects" / moved.path)
    kimi.write(tmp_path / "kimi-code/sessions" / kimi.path)
    cli.user("plum").write(tmp_path / "kimi/sessions" / cli.path)
    with Daemon(None, environ=environ) as daemon:
        daemon.sync()
        assert {session["sessionId"] for session in daemon.sessions()} == {claw.id, qwen.id, moved.id, kimi.id, cli.id}


@pytest.mark.fault(45)
def test_copied_history_is_indexed_once(daemon: Daemon) -> None:
    """A resumed session of Claude Code and a fork of Codex hold their parents' history; it is one hit, and both read whole."""
    claude = ClaudeSession().user("a quince tart").assistant("with cream")
    codex = CodexSession().user("a medlar jam").assistant("with sugar")
    for session in (claude, claude.resumed("11111111-2222-4333-8444-555555555555")):
        session.write(daemon.home / ".claude/projects/-home-me-project")
    for rollout in (codex, codex.fork(id="019e0000-0000-7000-8000-0000000000ff")):
        rollout.write(daemon.home / ".codex/sessions/2026/03/01")
    daemon.sync()
    for word in ("quince", "medlar"):
        results = daemon.call("search", query=word)["results"]
        assert [hit["similar"] for hit in results] == [1]
    assert [session["messageCount"] for session in daemon.call("list_sessions")["sessions"]] == [2, 2, 2, 2]
    daemon.check_index()


def named(daemon: Daemon) -> dict[str, str | None]:
    """The sessions' names."""
    return {session["sessionId"]: session["name"] for session in daemon.call("list_sessions")["sessions"]}


def test_titles_come_from_other_files(daemon: Daemon) -> None:
    """A summary in another session, a document beside the session: live, whichever is there first."""
    project = daemon.home / ".claude/projects/-home-me-project"
    told, other = (ClaudeSession(id=f"11111111-2222-4333-8444-55555555555{n}", version="2.0.76") for n in (1, 2))
    told.user("a quince tart")
    other.summary("All about tarts", told.last).user("a medlar jam").write(project)
    told.write(project)
    eventually(lambda: named(daemon) == {told.id: "All about tarts", other.id: "a medlar jam"})
    document = project / told.id / "custom-title.json"
    document.parent.mkdir()
    document.write_text('{\n  "customTitle": "Mine"\n}')
    eventually(lambda: named(daemon)[told.id] == "Mine")
    document.write_text('{"customTitle":""}')
    eventually(lambda: named(daemon)[told.id] == "All about tarts")


def test_codexs_index_of_names_is_read(daemon: Daemon) -> None:
    """It lies beside the roots, where nobody watches; the last line of a session counts, and an empty one takes the name back."""
    session = CodexSession().user("a quince tart")
    index = daemon.home / ".codex/session_index.jsonl"
    index.write_text(f'{{"id":"{session.id}","thread_name":"The tart"}}\n')
    session.write(daemon.home / ".codex/sessions/2026/03/01")
    eventually(lambda: named(daemon) == {session.id: "The tart"})
    with open(index, "a") as file:
        file.write(f'{{"id":"{session.id}","thread_name":""}}\n')
    eventually(lambda: named(daemon) == {session.id: "a quince tart"})
    index.with_suffix(".tmp").write_text(f'{{"id":"{session.id}","thread_name":"Tart again"}}\n')
    index.with_suffix(".tmp").rename(index)
    eventually(lambda: named(daemon) == {session.id: "Tart again"})
    eventually(lambda: daemon.call("status")["pending"] == {"files": 0, "bytes": 0})


def test_prompts_of_ours_are_in_no_agents_sessions(tmp_path: Path) -> None:
    """Whatever the agent keeps of a prompt that it was given by us; beside each such session there is one of a person's."""
    asked, theirs = f"{PROMPT_MARKER}\n\nWhat is this about?", "a quince tart"
    names = SOURCES.keys() - {"pi", "kilo", "sesame"}  # pi has tests of its own, Kilo is read as Roo
    sources = [{"parser": name, "path": str(tmp_path / name)} for name in names]
    with Daemon({"sources": sources}) as daemon:
        for number, text in enumerate((asked, theirs)):
            for directory in (
                "claude/p",
                "codex/2026/03/01",
                "gemini/birds/chats",
                "opencode",
                "openclaw/main/sessions",
                "copilot",
                "droid",
            ):
                (tmp_path / directory).mkdir(parents=True, exist_ok=True)
            ClaudeSession(id=f"11111111-2222-4333-8444-00000000000{number}").user(text).assistant("x").write(
                tmp_path / "claude/p"
            )
            CodexSession(id=f"019e0000-0000-7000-8000-00000000000{number}").user(text).assistant("x").write(
                tmp_path / "codex/2026/03/01"
            )
            DroidSession(id=f"d1010000-0000-4000-8000-00000000000{number}").context().user(text).answer("x").write(
                tmp_path / "droid"
            )
            editors, commands = (CursorSession(f"c00{digit}{number}").user(text).answer("x") for digit in (5, 6))
            write_transcript(tmp_path / "cursor", editors)
            write_chat(tmp_path / "cursor", commands)
            write_crush(tmp_path / "crush", CrushSession(f"c1a5{number}").user(text).answer("x"))
            write_goose(tmp_path / "goose", GooseSession(id=f"20260301_{number}").user(text).answer("x"))
            AmpThread(id=f"T-{number}").user(text).answer("x").write(tmp_path / "amp")
            copilot = CopilotSession(id=f"c0b10000-0000-4000-8000-00000000000{number}")
            copilot.user(text).answer("x").write(tmp_path / "copilot")
            early = history({"type": "user", "text": text}, session=f"c0b10000-0000-4000-8000-00000000001{number}")
            (tmp_path / f"copilot/session_early{number}_1.json").write_bytes(early)
            for kind, digit in (("jsonl", 0), ("json", 1)):
                gemini = GeminiSession(id=f"5ea10000-0000-4000-8000-0000000000{digit}{number}").user(text).answer("x")
                file = tmp_path / f"gemini/birds/chats/session-{kind}{number}.{kind}"
                file.write_bytes(gemini.bytes() if kind == "jsonl" else gemini.document())
            for kimi in (KimiSession(id=f"session_{number}"), KimiCliSession(id=f"6b1e{number}")):
                kimi.user(text).answer("x").write(tmp_path / "kimi" / kimi.path)
            cline, roo = ClineSession(id=f"177235560000{number}_a").user(text), ClineTask(id=f"0b5e{number}").user(text)
            for place, said in (("cline", cline.answer("x")), ("roo", roo.says("completion_result", "x"))):
                file = tmp_path / place / said.path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(said.document())
            qwen = QwenSession(id=f"9e20000{number}").user(text).answer("x")
            qwen.write(tmp_path / "qwen" / qwen.path)
            PiSession(id=f"0c1a000{number}").user(f"[Sun 2026-03-01 09:00 EST] {text}").assistant("x").write(
                tmp_path / "openclaw/main/sessions"
            )
            for member in OpenCodeSession(id=f"ses_000{number}").user(text).answer("x").members():
                file = tmp_path / "opencode" / member.path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(member.data)
        daemon.sync()
        assert sorted(session["source"] for session in daemon.sessions()) == [
            "amp", "claude", "cline", "codex", "copilot", "copilot", "crush", "cursor", "cursor", "droid", "gemini", "gemini",
            "goose", "kimi", "kimi",
            "openclaw", "opencode", "qwen", "roo",
        ]  # fmt: skip
        assert daemon.found("quince")
        assert daemon.found('"about?"') == []
