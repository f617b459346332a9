"""Sessions that are said whole every time, through the real daemon: Gemini CLI's documents, OpenCode's database and trees of files. The
database belongs to a program of its own, which writes while it is read."""

import json
import mmap
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.cline import ClineSession, ClineTask
from tests.support.crush import CrushSession, list_projects, write_crush
from tests.support.cursor import SCHEMA as CURSOR_SCHEMA
from tests.support.cursor import CursorSession, trust, write_transcript
from tests.support.cursor import beside as beside_chat
from tests.support.daemon import Daemon, eventually
from tests.support.gemini import GeminiSession
from tests.support.goose import SCHEMA as GOOSE_SCHEMA
from tests.support.goose import GooseSession
from tests.support.openclaw import DATABASE, OpenClawStore
from tests.support.opencode import EVENTS, SCHEMA, OpenCodeSession, tool_part
from tests.support.owner import Owner
from tests.support.sessions import Call, PiSession
from tests.support.watched import meta
from tests.support.zed import SCHEMA as ZED_SCHEMA
from tests.support.zed import ZedThread

WAL_INDEX_HEADERS = 96  # bytes: two copies, https://sqlite.org/walformat.html#the_wal_index_header


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon without configuration."""
    with Daemon(None) as started:
        (started.home / ".gemini/tmp/birds/chats").mkdir(parents=True)
        (started.home / ".local/share/opencode").mkdir(parents=True)
        started.sync()
        yield started


@pytest.fixture
def owner(daemon: Daemon) -> Iterator[Owner]:
    """OpenCode, as far as its database goes."""
    with Owner(daemon.home / ".local/share/opencode/opencode.db", tables=False) as started:
        for statement in (*SCHEMA.split(";"), EVENTS):
            if statement.strip():
                started.run(statement)
        yield started


def store(owner: Owner, session: OpenCodeSession, number: int) -> None:
    """Commit a session as it is now, as the change with this number."""
    owner.run("BEGIN IMMEDIATE")
    for sql, values in session.statements():
        owner.run(sql, *values)
    owner.run("REPLACE INTO event_sequence VALUES(?, ?, '')", session.id, number)
    owner.run("COMMIT")


def texts(daemon: Daemon, session: str) -> list[str]:
    """What is said in it."""
    return [message["text"] for message in daemon.call("list_messages", sessionId=session)["messages"]]


def test_geminis_sessions_are_read_as_they_grow(daemon: Daemon) -> None:
    """And kept as they were while they are half written, and when they go: Gemini CLI deletes sessions that it has resumed."""
    session = GeminiSession(cwd=str(daemon.home)).user("a quince tart")
    path = daemon.home / ".gemini/tmp" / session.path
    path.write_bytes(session.bytes())
    eventually(lambda: daemon.found("quince"))
    session.answer("baking", [(Call("run_shell_command", {"command": "bake medlar"}, "c1"), "burnt")])
    path.write_bytes(session.bytes())
    eventually(lambda: daemon.found("burnt"))
    assert meta(daemon, session.id)["resume"]["command"] == ["gemini", "--resume", session.id]
    before = texts(daemon, session.id)
    path.write_bytes(b"")
    daemon.call("sync", paths=[str(path)])
    assert texts(daemon, session.id) == before
    assert daemon.call("status")["counts"]["badLines"] == 1
    path.write_bytes(session.bytes())
    eventually(lambda: daemon.call("status")["counts"]["badLines"] == 0)
    path.unlink()
    eventually(lambda: meta(daemon, session.id)["gone"])
    daemon.call("index", full=True)
    assert texts(daemon, session.id) == before
    assert daemon.call("status")["state"] == "ready"


def test_clines_sessions_and_tasks_are_read_as_they_grow(daemon: Daemon) -> None:
    """Those of the command line and those of an editor; what stands beside one says where it ran, and only the first can be resumed."""
    session, task = ClineSession(cwd=str(daemon.home)), ClineTask(cwd=str(daemon.home))
    editor = daemon.home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev"
    paths = [daemon.home / ".cline/data" / session.path, editor / task.path]
    for path in paths:
        path.parent.mkdir(parents=True)
    call = Call("run_commands", {"commands": ["bake medlar"]})
    for word, grown in (
        ("quince", session.user("a quince tart")),
        ("medlar", session.answer("I bake it.", call)),
        ("burnt", session.ran(call, "burnt", 1)),
    ):
        paths[0].write_bytes(grown.document())
        eventually(partial(daemon.found, word))
    (daemon.home / ".cline/data" / session.manifest_path).write_bytes(session.manifest(title="Tarts"))
    eventually(lambda: meta(daemon, session.id)["name"] == "Tarts")
    shown = meta(daemon, session.id)
    assert (shown["gitBranch"], shown["toolCounts"]) == ("orchard", {"run_commands": 1})
    assert shown["resume"]["command"] == ["cline", "--id", session.id]
    paths[1].write_bytes(task.user("a salsify pie").document())
    eventually(lambda: daemon.found("salsify"))
    before = texts(daemon, task.id)
    paths[1].write_bytes(task.says("text", "it rises").document()[:-9])
    daemon.call("sync", paths=[str(paths[1])])
    assert texts(daemon, task.id) == before
    paths[1].write_bytes(task.document())
    eventually(lambda: daemon.found("rises"))
    assert meta(daemon, task.id)["resumeProblem"]["code"] == "noCommand"
    daemon.check_index()


def test_crushs_projects_are_found_when_they_are_listed(daemon: Daemon) -> None:
    """Each has a database of its own; one that is begun while the daemon runs is read, too. Nothing is left beside them."""
    lists, projects = (
        daemon.home / ".local/share/crush/projects.json",
        [daemon.home / name for name in ("birds", "shop")],
    )
    lists.parent.mkdir(parents=True)
    for number, (project, word) in enumerate(zip(projects, ("quince", "salsify"), strict=True)):
        session = CrushSession(f"c1a50000-0000-4000-8000-00000000000{number}").user(f"a {word} tart")
        write_crush(project / ".crush", session)
        lists.write_text(list_projects(*projects[: number + 1]))
        eventually(partial(daemon.found, word))
        assert meta(daemon, session.id)["cwd"] == str(project)
        assert os.listdir(project / ".crush") == ["crush.db"]
    with Owner(projects[1] / ".crush/crush.db", tables=False) as owner:
        beside = sorted(os.listdir(projects[1] / ".crush"))
        call = Call("bash", {"command": "bake medlar"})
        for word, grown in (
            ("medlar", session.answer("I ba", call)),
            ("burnt", session.result(call, "burnt\nExit code 3")),
        ):
            for sql, values in grown.statements():
                owner.run(sql, *values)
            eventually(partial(daemon.found, word))
        session.messages[1]["parts"][1]["data"]["text"] = "I bake a cornelian"
        for sql, values in session.statements():
            owner.run(sql, *values)
        eventually(lambda: daemon.found("cornelian"))
        assert texts(daemon, session.id)[1] == "I bake a cornelian"
        assert sorted(os.listdir(projects[1] / ".crush")) == beside
    shown = meta(daemon, session.id)
    assert (shown["messageCount"], shown["toolCounts"]) == (2, {"bash": 1})
    assert shown["resume"] == {"command": ["crush", "--session", session.id], "cwd": str(projects[1])} | {
        "unarchive": None
    }
    daemon.stop()
    daemon.start()
    assert len([root for root in daemon.call("status")["sources"] if root["parser"] == "crush"]) == 3
    daemon.check_index()


def test_gooses_database_is_read_while_it_is_written(daemon: Daemon) -> None:
    """Each commit is seen; nothing is left in its directory, and its owner never waits. A compaction leaves what was said."""
    file = daemon.home / ".local/share/goose/sessions/sessions.db"
    file.parent.mkdir(parents=True)
    with Owner(file, tables=False) as owner:
        for statement in GOOSE_SCHEMA.split(";"):
            owner.run(statement)
        beside = sorted(os.listdir(file.parent))
        session, call = (
            GooseSession(cwd=str(daemon.home)).user("a quince tart"),
            Call("shell", {"command": "bake medlar"}),
        )
        for word, grown in (
            ("quince", session),
            ("medlar", session.answer("I bake it.").calls(call)),
            ("burnt", session.result(call, "burnt", 3)),
            ("salsify", session.user("and a salsify pie")),
            ("spoke", session.compact("They spoke of tarts.")),
        ):
            owner.run("BEGIN IMMEDIATE")
            for sql, values in grown.statements():
                owner.run(sql, *values)
            owner.run("COMMIT")
            eventually(partial(daemon.found, word))
        assert texts(daemon, session.id)[0] == "a quince tart"
        assert texts(daemon, session.id)[-1] == "and a salsify pie"
        owner.run("UPDATE sessions SET name = 'Tarts', user_set_name = 1")
        eventually(lambda: meta(daemon, session.id)["name"] == "Tarts")
        shown = meta(daemon, session.id)
        assert (shown["cwd"], shown["toolCounts"]) == (str(daemon.home), {"shell": 1})
        assert shown["resume"]["command"][-1] == session.id
        assert sorted(os.listdir(file.parent)) == beside
    daemon.check_index()


def test_cursors_sessions_are_read_while_they_are_written(daemon: Daemon) -> None:
    """From its database, where each commit is seen, and nothing is left beside it; else from a transcript. None is there twice."""
    home, call = daemon.home / ".cursor", Call("Shell", {"command": "bake medlar"})
    session = CursorSession(cwd=str(daemon.home))
    file = session.database(home)
    file.parent.mkdir(parents=True)
    with Owner(file, tables=False) as owner:
        for statement in CURSOR_SCHEMA.split(";"):
            owner.run(statement)
        beside = sorted(os.listdir(file.parent))
        for word, grown in (
            ("quince", session.user("a quince tart")),
            ("cornelian", session.answer("I bake a cornelian.", call)),
            ("burnt", session.result(call, "burnt", 3)),
        ):
            for sql, values in grown.statements():
                owner.run(sql, *values)
            eventually(partial(daemon.found, word))
            assert sorted(os.listdir(file.parent)) == beside
        write_transcript(home, session)
        worker = CursorSession("c0050000-0000-4000-8000-000000000002", cwd=session.cwd).user("count the salsify")
        write_transcript(home, worker, session.id)
        trust(home, session)
        eventually(lambda: daemon.found("salsify", subagents="only"))
        (file.parent / "meta.json").write_bytes(beside_chat(session, title="Tarts"))
        eventually(lambda: meta(daemon, session.id)["name"] == "Tarts")
    daemon.sync()
    (hit,) = daemon.call("search", query="burnt", status="error")["results"]
    assert hit["sessionId"] == session.id
    shown = meta(daemon, session.id)
    assert (shown["cwd"], shown["messageCount"], shown["toolCounts"]) == (str(daemon.home), 2, {"Shell": 1})
    assert shown["resume"]["command"] == ["cursor-agent", "--resume", session.id]
    below = meta(daemon, worker.id)
    assert (below["parentSessionId"], below["cwd"]) == (session.id, session.cwd)
    assert texts(daemon, worker.id) == ["count the salsify"]
    daemon.check_index()


def test_zeds_database_is_read_while_it_is_written(daemon: Daemon) -> None:
    """Each commit is seen; nothing is left in its directory. It has no WAL, and tries to write once only."""
    file = daemon.home / ".local/share/zed/threads/threads.db"
    file.parent.mkdir(parents=True)
    with Owner(file, "delete", tables=False) as owner:
        for statement in ZED_SCHEMA.split(";"):
            owner.run(statement)
        thread, call = ZedThread(cwd=str(daemon.home)), Call("terminal", {"command": "bake medlar", "cd": "."})
        for word, grown in (
            ("quince", thread.user("a quince tart")),
            ("burnt", thread.answer("I bake it.", (call, 'Command "bake medlar" failed with exit code 3.\n\nburnt'))),
            ("salsify", thread.user("and a salsify pie")),
        ):
            for sql, values in grown.statements():
                owner.run(sql, *values)
            eventually(partial(daemon.found, word))
        child = ZedThread("2ed00000-0000-4000-8000-000000000002", str(daemon.home), parent=thread.id).user(
            "count pears"
        )
        for sql, values in child.statements():
            owner.run(sql, *values)
        eventually(lambda: daemon.found("pears", subagents="only"))
        owner.run("UPDATE threads SET summary = 'Tarts' WHERE parent_id IS NULL")
        eventually(lambda: meta(daemon, thread.id)["name"] == "Tarts")
        (hit,) = daemon.call("search", query="burnt", status="error")["results"]
        assert hit["sessionId"] == thread.id
        shown = meta(daemon, thread.id)
        assert (shown["cwd"], shown["gitBranch"], shown["messageCount"]) == (str(daemon.home), "main", 3)
        assert (shown["created"], shown["modified"]) == ("2026-03-01T09:00:00.000Z", "2026-03-01T09:03:00.123Z")
        assert shown["resumeProblem"]["code"] == "noCommand"
        assert meta(daemon, child.id)["parentSessionId"] == thread.id
        assert os.listdir(file.parent) == ["threads.db"]
    daemon.check_index()


def test_opencodes_database_is_read_while_it_is_written(daemon: Daemon, owner: Owner) -> None:
    """Every commit is seen, although all of them are in the WAL; nothing is left in its directory, and its owner never waits."""
    directory = owner.path.parent
    beside = sorted(os.listdir(directory))
    session = OpenCodeSession().user("a quince tart")
    for number in range(1, 6):
        store(
            owner,
            session.answer(f"answer{number}", tool_part("bash", {"command": f"bake medlar{number}"}, "burnt")),
            number,
        )
        eventually(partial(daemon.found, f"answer{number}"))
    assert daemon.found("medlar5")
    other = session.fork("ses_0002").user("a salsify pie")
    store(owner, other, 1)
    eventually(lambda: daemon.found("salsify"))
    assert [hit["similar"] for hit in daemon.call("search", query="quince")["results"]] == [1]
    shown = meta(daemon, session.id)
    assert (shown["path"], shown["messageCount"], shown["toolCounts"]) == (str(owner.path), 6, {"bash": 5})
    assert shown["resume"] is None or shown["resume"]["command"][0] == "opencode"
    assert sorted(os.listdir(directory)) == beside
    assert daemon.call("status")["pending"] == {"files": 0, "bytes": 0}


def test_openclaws_sessions_move_from_files_into_a_database(daemon: Daemon) -> None:
    """They are the same there, and each commit is seen; an archived file is the session that it was. A list names them."""
    agents = daemon.home / ".openclaw/agents"
    file = agents / "main/sessions/019e0000-0000-7000-8000-000000000001.jsonl"
    session = PiSession(cwd=str(daemon.home)).user("[Sun 2026-03-01 09:00 EST] a quince tart")
    file.parent.mkdir(parents=True)
    session.write(file)
    eventually(lambda: daemon.found("quince"))
    with open(file, "ab") as end:
        end.write(session.assistant("with medlar").last_line())
    eventually(lambda: daemon.found("medlar"))
    names = file.with_name("sessions.json")
    names.write_text(json.dumps({"agent:main:main": {"sessionId": session.id, "label": "The tart"}}))
    eventually(lambda: meta(daemon, session.id)["name"] == "The tart")
    file.rename(file.with_name(f"{file.name}.reset.2026-03-02T00-00-00.000Z"))
    with OpenClawStore(agents / DATABASE) as store:
        beside = sorted(os.listdir(store.directory))
        store.converse("agent:main:main", session, label="The cake")
        store.write(session.user("and a salsify pie").assistant("burnt " * 300))
        eventually(lambda: daemon.found("burnt"))
        store.converse("agent:main:main", session, label="The cake")
        eventually(lambda: meta(daemon, session.id)["name"] == "The cake")
        assert texts(daemon, session.id)[:3] == ["a quince tart", "with medlar", "and a salsify pie"]
        assert [hit["similar"] for hit in daemon.call("search", query="quince")["results"]] == [0]
        assert meta(daemon, session.id)["resumeProblem"]["code"] == "noCommand"
        assert sorted(os.listdir(store.directory)) == beside
    daemon.check_index()


def test_a_path_of_a_database_means_all_its_sessions(daemon: Daemon, owner: Owner) -> None:
    """The WAL's does, too; others beside it are none of ours."""
    for number in (1, 2):
        store(owner, OpenCodeSession(id=f"ses_000{number}").user(f"quince{number}"), 1)
    for name, ignored in {"opencode.db": 0, "opencode.db-wal": 0, "opencode.db-shm": 1}.items():
        asked = daemon.call("sync", paths=[str(owner.path.with_name(name))])
        assert len(asked["ignored"]) == ignored
    assert daemon.found("quince1")
    assert daemon.found("quince2")


def test_a_commit_is_found_that_its_owner_says_only_after_the_last_event(daemon: Daemon, owner: Owner) -> None:
    """It writes to the WAL, waits for the disk, and only then says in shared memory that this counts: of that no event tells."""
    store(owner, OpenCodeSession(id="ses_0001").user("a quince tart"), 1)
    eventually(lambda: daemon.found("quince"))
    daemon.sync()
    before = daemon.call("status")["lastEventAt"]
    with open(f"{owner.path}-shm", "r+b") as file, mmap.mmap(file.fileno(), WAL_INDEX_HEADERS) as shared:
        os.kill(daemon.pid, signal.SIGSTOP)
        as_before = shared[:]
        store(owner, OpenCodeSession(id="ses_0002").user("a medlar tart"), 2)
        said, shared[:] = shared[:], as_before
        os.kill(daemon.pid, signal.SIGCONT)
        eventually(lambda: daemon.call("status")["lastEventAt"] != before)
        daemon.sync()
        assert not daemon.found("medlar")
        shared[:] = said
    eventually(lambda: daemon.found("medlar"), 20)  # a sweep comes in a minute


def test_sessions_that_leave_a_database_are_kept(daemon: Daemon, owner: Owner) -> None:
    """Also by a rebuild, and when the whole database is gone; what an owner that was killed has left is read."""
    for number in (1, 2):
        store(owner, OpenCodeSession(id=f"ses_000{number}").user(f"quince{number}"), 1)
    daemon.sync()
    for table, column in (("part", "session_id"), ("message", "session_id"), ("session", "id")):
        owner.run(f"DELETE FROM {table} WHERE {column} = 'ses_0001'")
    eventually(lambda: meta(daemon, "ses_0001")["gone"])
    store(owner, OpenCodeSession(id="ses_0003").user("salsify"), 1)
    owner.kill()
    eventually(lambda: daemon.found("salsify"))
    daemon.call("index", full=True)
    assert texts(daemon, "ses_0001") == ["quince1"]
    assert not meta(daemon, "ses_0003")["gone"]
    for path in owner.path.parent.glob("opencode.db*"):
        path.unlink()
    eventually(lambda: meta(daemon, "ses_0003")["gone"])
    assert daemon.found("quince2")
    daemon.check_index()


def test_a_database_that_is_not_known_is_a_warning(daemon: Daemon) -> None:
    """Of its root, also after a restart, when nothing has changed; the daemon is well."""
    daemon.allowed.append("not a database of a version that we know")
    with Owner(daemon.home / ".local/share/opencode/opencode.db", tables=False) as owner:
        owner.run("CREATE TABLE session(id TEXT, of_tomorrow TEXT)")
        eventually(lambda: source(daemon)["warningCodes"] == ["unknownFormat"])
        assert daemon.call("status")["state"] == "ready"
        daemon.restart().sync()
        assert source(daemon)["warningCodes"] == ["unknownFormat"]
        daemon.call("index", full=True)
        assert source(daemon)["warningCodes"] == ["unknownFormat"]
        owner.run("DROP TABLE session")
        for statement in (*SCHEMA.split(";"), EVENTS):
            if statement.strip():
                owner.run(statement)
        store(owner, OpenCodeSession().user("a quince tart"), 1)
        eventually(lambda: daemon.found("quince"))
        assert source(daemon)["warningCodes"] == []


def test_what_else_is_in_the_data_directory_costs_nothing(daemon: Daemon, owner: Owner) -> None:
    """OpenCode's snapshots are git repositories, with thousands of directories: neither swept nor watched, and nobody wakes for them."""
    snapshots = daemon.home / ".local/share/opencode/snapshot"
    for number in range(300):
        (snapshots / f"{number}/objects").mkdir(parents=True)
    daemon.restart()  # the roots are watched anew
    daemon.sync()
    (snapshots / "0/objects/ab").mkdir()
    (snapshots / "0/objects/ab/cdef").write_text("a git object")
    if sys.platform == "linux":
        eventually(lambda: watches(daemon) == sum(root["directories"] for root in daemon.call("status")["sources"]))
    assert source(daemon)["directories"] == 1
    assert daemon.call("status")["lastEventAt"] is None
    store(owner, OpenCodeSession().user("a quince tart"), 1)
    eventually(lambda: daemon.found("quince"))
    assert daemon.call("status")["lastEventAt"]


def test_the_file_that_a_variable_names_is_the_agents_own(daemon: Daemon) -> None:
    """One that cannot be read is said; what else lies in its directory is not."""
    directory = daemon.home / "work"
    (directory / "deep").mkdir(parents=True)
    for name in ("mine.db", "other.db", "deep/other.db"):
        with Owner(directory / name, "delete", tables=False) as owner:
            owner.run("CREATE TABLE something(id)")
    daemon.stop()
    for path in daemon.data_dir.glob("index.sqlite*"):
        path.unlink()  # roots are those of the first start
    daemon.extra_environ["OPENCODE_DB"] = str(directory / "mine.db")
    daemon.start()

    def find_root() -> dict[str, Any]:
        return next(root for root in daemon.call("status")["sources"] if root["path"] == str(directory))

    eventually(lambda: find_root()["warningCodes"] == ["unknownFormat"])
    daemon.sync()
    root = find_root()
    assert (root["directories"], root["files"], len(root["warnings"])) == (1, 2, 1)
    assert str(directory / "mine.db") in root["warnings"][0]
    assert daemon.call("status")["counts"]["badLines"] == 1
    daemon.allowed.append("not a database of a version that we know")


def watches(daemon: Daemon) -> int:
    """How many directories the kernel watches for it."""
    found = 0
    for number in os.listdir(f"/proc/{daemon.pid}/fdinfo"):
        with suppress(FileNotFoundError), open(f"/proc/{daemon.pid}/fdinfo/{number}") as opened:
            found += sum(line.startswith("inotify ") for line in opened)
    return found


def source(daemon: Daemon) -> dict[str, Any]:
    """OpenCode's root in `status`."""
    found: dict[str, Any] = next(root for root in daemon.call("status")["sources"] if root["parser"] == "opencode")
    return found


def test_a_tree_of_files_is_read_as_it_grows(daemon: Daemon) -> None:
    """Each part leads to its session."""
    session = OpenCodeSession().user("a quince tart")
    written: set[Path] = set()

    def write() -> list[Path]:
        new = []
        for member in session.members():
            path = daemon.home / ".local/share/opencode" / member.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if path not in written:
                path.write_bytes(member.data)
                new.append(path)
        written.update(new)
        return new

    write()
    eventually(lambda: daemon.found("quince"))
    session.answer("with cream", tool_part("bash", {"command": "bake medlar"}, "burnt"))
    write()
    eventually(lambda: daemon.found("burnt"))
    session.part({"type": "text", "text": "salsify"})
    (part,) = write()
    assert daemon.call("sync", paths=[str(part)])["ignored"] == []
    assert daemon.found("salsify")
    assert meta(daemon, session.id)["path"].endswith(f"/{session.id}.json")


def test_the_files_of_a_gemini_session_are_one(daemon: Daemon) -> None:
    """The old document, the log that goes on from it, and what a resume in a later minute leaves. The directory is told by others."""
    session = GeminiSession(cwd=str(daemon.home)).user("a quince tart").answer("baked")
    old = daemon.home / ".gemini/tmp/birds/chats/session-old.json"
    old.write_bytes(session.document())
    (daemon.home / ".gemini/projects.json").write_text(f'{{"projects": {{"{daemon.home}": "birds"}}}}')
    eventually(lambda: daemon.found("quince") and meta(daemon, session.id)["cwd"] == str(daemon.home))
    later = GeminiSession(cwd=str(daemon.home), start="2026-03-01T10:00:00.000Z")
    for log in (session.user("and a medlar jam"), later):
        (daemon.home / ".gemini/tmp" / log.path).write_bytes(log.bytes())
    eventually(lambda: daemon.found("medlar"))
    daemon.sync()
    (only,) = daemon.call("list_sessions")["sessions"]
    assert (only["sessionId"], only["messageCount"], only["created"]) == (session.id, 3, "2026-03-01T09:00:02.000Z")
    daemon.check_index()


def test_copied_history_of_opencode_is_indexed_once(daemon: Daemon, owner: Owner) -> None:
    """In a fork, and in the files that were imported into the database."""
    session = OpenCodeSession().user("a quince tart").answer("with cream")
    for member in session.members():
        path = daemon.home / ".local/share/opencode" / member.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(member.data)
    eventually(lambda: daemon.found("quince"))
    store(owner, session, 1)
    store(owner, session.fork("ses_0002").user("and a medlar jam"), 1)
    eventually(lambda: daemon.found("medlar"))
    daemon.sync()
    counts = {found["sessionId"]: found["messageCount"] for found in daemon.call("list_sessions")["sessions"]}
    assert counts == {"ses_0001": 2, "ses_0002": 3}
    assert len(daemon.found("quince")) == 1
    assert texts(daemon, "ses_0002") == ["a quince tart", "with cream", "and a medlar jam"]
    daemon.check_index()


def test_what_a_prompt_replaces_is_no_more(daemon: Daemon, owner: Owner) -> None:
    """OpenCode deletes what was taken back when the next prompt is given."""
    session = OpenCodeSession().user("a quince tart").answer("with cream").user("no, a medlar jam")
    store(owner, session, 1)
    eventually(lambda: daemon.found("medlar"))
    message, _ = session.messages.pop()
    owner.run("DELETE FROM message WHERE id = ?", message["id"])
    store(owner, session.user("a salsify pie"), 2)
    eventually(lambda: daemon.found("salsify"))
    assert not daemon.found("medlar")
    assert texts(daemon, session.id) == ["a quince tart", "with cream", "a salsify pie"]
    daemon.check_index()


def test_a_session_that_is_imported_into_the_database_is_one(daemon: Daemon, owner: Owner) -> None:
    """OpenCode leaves the files where they are; what is said later stands in the database only."""
    session = (
        OpenCodeSession().user("a quince tart").answer("with cream", tool_part("bash", {"command": "bake"}, "burnt"))
    )
    for member in session.members():
        path = owner.path.parent / member.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(member.data)
    store(owner, session, 1)
    daemon.sync()
    shown = meta(daemon, session.id)
    assert (shown["messageCount"], shown["toolCounts"]) == (2, {"bash": 1})
    assert daemon.call("search", query="quince")["resultCount"] == 1
    store(owner, session.user("salsify"), 2)
    daemon.sync()
    assert texts(daemon, session.id)[-1] == "salsify"
    assert meta(daemon, session.id)["messageCount"] == 3
    daemon.check_index()
