"""How a session is resumed, and why it is not."""

import os
from pathlib import Path
from typing import Any

import pytest

from sesamed.methods.resume import find_problem, is_archived, make_command_here, make_resume
from sesamed.sources import SOURCES
from sesamed.store.reading.summary import Origin

FILE = b"/home/me/.agent/sessions/2026/one.jsonl"
PLACES = {  # these resume what is in such a directory only
    "cursor": b"/home/me/.cursor/chats/5d2/one-1/store.db",
    "kilo": b"/home/me/.local/share/kilo/kilo.db",
}
ARCHIVED = b"/home/me/.codex/archived_sessions/one.jsonl"
ABLE = [name for name, source in SOURCES.items() if source.resume is not None]


def origin(source: str, cwd: Any, *paths: bytes, id: str = "one-1", subagent: bool = False) -> Origin:  # noqa: A002
    paths = paths or (PLACES.get(source, FILE),)
    return Origin(source, id, None if cwd is None else str(cwd), subagent, None, paths)


@pytest.fixture
def anothers(tmp_path: Path) -> str:
    """A directory of another user."""
    if os.geteuid():
        return "/"
    os.chown(tmp_path, 12345, -1)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("pi", ["pi", "--session", FILE.decode()]),
        ("claude", ["claude", "--resume", "one-1"]),
        ("codex", ["codex", "resume", "one-1"]),
        ("gemini", ["gemini", "--resume", "one-1"]),
        ("qwen", ["qwen", "--resume", "one-1"]),
        ("crush", ["crush", "--session", "one-1"]),
        ("aider", ["aider", "--chat-history-file", FILE.decode(), "--restore-chat-history"]),
        ("cursor", ["cursor-agent", "--resume", "one-1"]),
        ("kilo", ["kilo", "{cwd}", "--session", "one-1"]),
        ("goose", ["goose", "session", "--resume", "--session-id", "one-1"]),
        ("cline", ["cline", "--id", "one-1"]),
        ("kimi", ["kimi", "--session", "one-1"]),
        ("opencode", ["opencode", "{cwd}", "--session", "one-1"]),
        ("copilot", ["copilot", "--resume", "one-1"]),
        ("droid", ["droid", "--resume", "one-1"]),
        ("amp", ["amp", "threads", "continue", "one-1"]),
    ],
)
def test_each_agent_has_its_command(tmp_path: Path, source: str, words: list[str]) -> None:
    """In the session's directory, for a session whose file is there."""
    whole = origin(source, tmp_path)
    assert find_problem(whole) is None
    resume = make_resume(whole)
    assert (resume.command, resume.cwd) == ([word.format(cwd=tmp_path) for word in words], str(tmp_path))
    assert resume.unarchive is None


def test_a_command_may_know_only_some_of_an_agents_sessions(tmp_path: Path) -> None:
    """Others are an editor's."""
    for name, path in (
        ("cline", b"/home/me/.cline/data/tasks/one-1/ui_messages.json"),
        ("kilo", b"/home/me/.config/Code/User/globalStorage/kilocode.kilo-code/tasks/one-1/ui_messages.json"),
        ("cursor", b"/home/me/.cursor/projects/p/agent-transcripts/one-1/one-1.jsonl"),
    ):
        problem = find_problem(origin(name, tmp_path, path))
        assert problem is not None
        assert problem.code == "noCommand"


@pytest.mark.parametrize("source", ABLE)
@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"cwd": None}, "directoryUnknown", "does not say in which directory"),
        ({"cwd": "C:\\code"}, "directoryUnknown", "does not say in which directory"),
        ({"cwd": "/no/such/place"}, "directoryGone", "its directory does not exist: /no/such/place"),
        ({"cwd": "/no/\x1b[2J"}, "unsafe", "its directory's path"),
        ({"cwd": "/no/\ud800"}, "unsafe", "its directory's path"),
        ({"cwd": FILE.decode()}, "directoryGone", "its directory"),
        ({"paths": ()}, "fileGone", "its file is gone"),
        ({"paths": (b"/a/\xff.jsonl",)}, "unsafe", "its file's path"),
        ({"paths": (b"/a/\n.jsonl",)}, "unsafe", "its file's path"),
        ({"native_id": "-x"}, "unsafe", "its id"),
        ({"native_id": "$(x)"}, "unsafe", "its id"),
        ({"native_id": ""}, "unsafe", "its id"),
    ],
)
def test_each_problem_is_told(tmp_path: Path, source: str, fields: Any, code: str, message: str) -> None:
    """With a code, and words that fit behind `cannot resume:`."""
    problem = find_problem(origin(source, tmp_path)._replace(**fields))
    assert problem is not None
    assert problem.code == code
    assert message in problem.message


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    """Nor is somebody else's directory one to run in."""
    (tmp_path / "file").touch()
    problem = find_problem(origin("pi", tmp_path / "file"))
    assert problem is not None
    assert (problem.code, problem.message) == ("directoryGone", f"its directory is a file now: {tmp_path}/file")


def test_another_users_directory_is_told(anothers: str) -> None:
    """What is in it may be a trap."""
    problem = find_problem(origin("codex", anothers))
    assert problem is not None
    assert problem.code == "directoryNotYours"


def test_what_nobody_can_resume(tmp_path: Path) -> None:
    """Sessions that the daemon stores, those of unknown sources, and most subagents."""
    for name in ("sesame", "gone-agent"):
        problem = find_problem(origin(name, tmp_path))
        assert problem is not None
        assert problem.code == "noCommand"
        assert make_command_here(origin(name, tmp_path), problem) is None
        assert not is_archived(origin(name, tmp_path))
    problems = {name: find_problem(origin(name, tmp_path, subagent=True)) for name in ABLE}
    told = {name for name, problem in problems.items() if problem is not None and problem.code == "subagent"}
    assert told == set(ABLE) - {"pi"}


def test_elsewhere(tmp_path: Path) -> None:
    """Codex takes any directory, pi another one once its own is gone; others know their sessions in their own only."""
    for name in ABLE:
        there, lost = origin(name, tmp_path), origin(name, tmp_path / "none")
        words = [make_command_here(one, find_problem(one)) for one in (there, lost)]
        expected: Any = {
            "codex": [["codex", "resume", "--cd", ".", "one-1"]] * 2,
            "pi": [None, ["pi", "--session", FILE.decode()]],
        }
        assert words == expected.get(name, [None, None])
        bad = lost._replace(native_id="$(x)")
        assert make_command_here(bad, find_problem(bad)) is None


def test_archived(tmp_path: Path) -> None:
    """A session is archived when all of its files are; its agent says how to take it out."""
    archived = origin("codex", tmp_path, ARCHIVED)
    assert is_archived(archived)
    assert make_resume(archived).unarchive == ["codex", "unarchive", "one-1"]
    assert make_resume(archived).command == ["codex", "resume", "one-1"]
    for other in (
        origin("codex", tmp_path, ARCHIVED, FILE),
        origin("claude", tmp_path, ARCHIVED),
        origin("codex", tmp_path),
    ):
        assert not is_archived(other)
        assert make_resume(other).unarchive is None
    assert not is_archived(archived._replace(paths=()))
