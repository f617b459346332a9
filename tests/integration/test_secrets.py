"""Secrets leave only where a person wants them to: not in an answer, not through a search, and with `drop` they are in no file."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamed.store import sqlite
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession

CORE = "16C7e42F292c6912E7710c838347Ae178B4a"  # nobody's
SECRET = "gh" + "p_" + CORE
PASSWORD = "tr0ub4dor&3"
MASK = "[masked:githubtoken]"
GONE = "session-gone"


def _session(name: str) -> PiSession:
    """A secret in every place that a transcript has."""
    session = PiSession(id=name).user(f"quince: deploy with {SECRET} please").name(f"Deploy {SECRET}")
    session.tool(
        "bash",
        {"command": f"export GITHUB_TOKEN={SECRET}", "nested": {"url": f"https://x:{SECRET}@h"}},
        f"got {SECRET}",
    )
    session.tool("read", {"path": f"/tmp/{SECRET}/notes.txt"}, f"DB_PASSWORD={PASSWORD}\n" * 30, error=True)
    return session.assistant(f"done with {SECRET}").custom(f"note {SECRET}").compaction(f"used {SECRET}")


def _fill(daemon: Daemon) -> None:
    daemon.write("a.jsonl", _session("session-a").bytes())
    path = daemon.write("gone.jsonl", _session(GONE).bytes() + f"{{bad {SECRET}\n".encode())
    daemon.sync()
    os.unlink(path)
    daemon.sync()
    own = daemon.call("new_session", agent=f"agent {SECRET}", title=f"Own {SECRET}")["sessionId"]
    daemon.call("append_message", sessionId=own, role="user", text=f"own quince {SECRET}")
    daemon.call(
        "append_message",
        sessionId=own,
        role="assistant",
        text=json.dumps({"k": SECRET}),
        toolName="put",
        toolCallId="1",
    )
    daemon.call(
        "set_session_meta", sessionId="session-a", summary=f"a {SECRET}", description=SECRET, tags=[f"t {SECRET}"]
    )


def _ask_everything(daemon: Daemon) -> str:
    """All that can be asked without revealing anything."""
    sessions = daemon.sessions()
    found: list[Any] = [
        sessions,
        daemon.call("status"),
        daemon.call("list_bad_lines"),
        daemon.call("list_sessions", since=0),
    ]
    for query in ("quince", "deploy", "masked", "githubtoken", "DB_PASSWORD", "*", "notes.txt", "own", "note"):
        found += [daemon.call(method, query=query, limit=20) for method in ("search", "search_sessions")]
        assert found[-1]["hits"], query
    for session in sessions:
        name = session["sessionId"]
        found += [daemon.call("list_messages", sessionId=name), daemon.call("get_session_meta", sessionId=name)]
    return json.dumps(found)


def _revealed(daemon: Daemon, session: str) -> str:
    return json.dumps(daemon.call("list_messages", sessionId=session, reveal=True))


def _read_index(daemon: Daemon) -> tuple[set[str], list[str], list[str]]:
    """The words of the full-text tables; all texts, and those without masks."""
    with daemon.opened() as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.of_headings USING fts5vocab(main, headings, row)")
        words = {
            word
            for table in ("vocabulary", "of_headings")
            for (word,) in connection.execute(f"SELECT term FROM {table}")
        }
        rows = connection.execute("SELECT text, raw FROM chunks").fetchall()
        rows += connection.execute("SELECT value, NULL FROM facts UNION SELECT value, NULL FROM remarks").fetchall()
        rows += connection.execute(
            "SELECT tail, NULL FROM paths UNION SELECT tool, NULL FROM records WHERE tool <> ''"
        ).fetchall()
    texts, raws = (
        [sqlite.plain(text) for text in column if isinstance(text, str | bytes)] for column in zip(*rows, strict=True)
    )
    return words, texts, raws


def _files_with(daemon: Daemon, secret: str) -> set[str]:
    return {path.name for path in daemon.data_dir.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()}


@pytest.fixture(scope="module")
def masking() -> Iterator[Daemon]:
    with Daemon() as daemon:
        _fill(daemon)
        yield daemon


def test_no_answer_has_a_secret(masking: Daemon) -> None:
    """By default; and what a person reads says what was there."""
    answers = _ask_everything(masking)
    assert MASK in answers
    assert CORE not in answers
    assert PASSWORD not in answers


def test_no_search_finds_a_secret(masking: Daemon) -> None:
    """Not by any part of it: the full-text index does not have it."""
    words, texts, _ = _read_index(masking)
    assert not [word for word in words if CORE[:8].lower() in word or "ub4dor" in word]
    assert not [text for text in texts if CORE in text or PASSWORD in text]
    for query in (SECRET, CORE, f"{CORE[:8]}*", f'"{SECRET}"'):
        assert masking.call("search", query=query)["words"][-1]["chunks"] == 0


def test_who_asks_for_it_is_shown_a_secret(masking: Daemon) -> None:
    """What is behind a mask is kept, of sessions whose files are gone as well. Texts begin at their own offsets."""
    for session in ("session-a", GONE):
        assert _revealed(masking, session).count(SECRET) == 8
        assert PASSWORD in _revealed(masking, session)
        assert MASK not in _revealed(masking, session).replace(f"Deploy {MASK}", "")
    shown, whole = (
        masking.call("list_messages", sessionId="session-a", limit=1, textOffset=8, reveal=reveal)["messages"][0][
            "text"
        ]
        for reveal in (False, True)
    )
    assert (shown, whole) == (f"deploy with {MASK} please", f"deploy with {SECRET} please")


def test_nothing_is_revealed_to_a_program_that_prints(masking: Daemon) -> None:
    """`sesamectl show --reveal` needs a terminal, and asks."""
    command = [sys.executable, "-m", "sesamectl", "show", "session-a", "--reveal"]
    done = subprocess.run(command, env=masking.environ(), capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"only works in a terminal" in done.stderr
    for answer, code in (("y", 0), ("n", 4), ("", 4)):
        ours, theirs = pty.openpty()
        os.write(ours, f"{answer}\n".encode())
        with subprocess.Popen(command, env=masking.environ(), stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            printed = _read_all(ours)
        assert process.returncode == code
        assert (SECRET.encode() in printed) == (answer == "y")


def _read_all(terminal: int) -> bytes:
    printed = b""
    try:
        while data := os.read(terminal, 1 << 16):
            printed += data
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(terminal)
    return printed


def test_what_is_dropped_is_in_no_file() -> None:
    """Of the data directory, while it runs, afterwards and after a rebuild."""
    with Daemon({"secrets": "drop"}) as daemon:
        _fill(daemon)
        for _ in range(2):
            words, texts, raws = _read_index(daemon)
            assert not [text for text in (*words, *texts) if CORE.lower() in text.lower() or PASSWORD in text]
            assert raws == []
            assert CORE not in _revealed(daemon, "session-a")
            assert CORE not in _ask_everything(daemon)
            assert _files_with(daemon, CORE) == _files_with(daemon, PASSWORD) == set()
            daemon.call("index", full=True)
        daemon.stop()
        assert _files_with(daemon, CORE) == set()
        daemon.start()


def test_kept_is_as_it_stands() -> None:
    """With `keep` nothing is masked."""
    with Daemon({"secrets": "keep"}) as daemon:
        _fill(daemon)
        assert SECRET in json.dumps(daemon.call("search", query=CORE))
        assert _read_index(daemon)[2] == []


def test_another_setting_counts_for_all_that_is_there() -> None:
    """At the next start, with the reason in `status` until it is done; never does an answer show what should be masked by then."""
    with Daemon({"secrets": "keep"}) as daemon:
        _fill(daemon)
        for setting, was_kept in (("mask", True), ("drop", False), ("mask", False), ("keep", False)):
            _set(daemon, setting)
            state = daemon.call("status")
            assert [warning["code"] for warning in state["warnings"]] in ([], ["secrets"])
            assert state["state"] in ("ready", "indexing")
            assert setting == "keep" or CORE not in json.dumps(daemon.call("search", query="quince", limit=20))
            eventually(lambda: not daemon.call("status")["warnings"])
            assert not [path for path in daemon.data_dir.iterdir() if ".old-" in path.name]
            assert (SECRET in _ask_everything(daemon)) == (setting == "keep")
            assert (SECRET in _revealed(daemon, "session-a")) == (setting != "drop")
            assert (SECRET in _revealed(daemon, GONE)) == was_kept
            assert len(daemon.sessions()) == 3
            daemon.check_index()


def _set(daemon: Daemon, setting: str) -> None:
    daemon.stop()
    config = json.loads(daemon.config_file.read_text())
    daemon.configure({**config, "secrets": setting})
    daemon.start()


def test_no_extension_asks_for_secrets() -> None:
    """What an agent is given goes to a model."""
    package = Path(__file__).parents[2] / "pi"
    sources = [
        path for path in package.rglob("*") if path.suffix in (".ts", ".md") and "node_modules" not in path.parts
    ]
    assert len(sources) > 5
    assert not [path for path in sources if "reveal" in path.read_text()]
