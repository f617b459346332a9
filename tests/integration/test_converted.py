"""Sessions as converters and tests of other programs write them: lines with neither ids nor times, equal ones among them."""

import json
from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.sessions import Call, PiSession, encoded

EQUAL_LINES = 5000
COMMON = [f"common-{number}" for number in range(5)]
DEPLOY = {"deploy-failed": True, "deploy-done": False}


def session(name: str, cwd: str = "/project") -> PiSession:
    """A session with this id."""
    return PiSession(id=name, cwd=cwd, start="2026-01-15T10:00:00.000Z")


def bare(line: bytes) -> bytes:
    """A line without ids and times, but for a header."""
    entry = json.loads(line)
    if entry["type"] != "session":
        entry.get("message", {}).pop("timestamp", None)
        entry = {name: entry[name] for name in entry.keys() - {"id", "parentId", "timestamp"}}
    return encoded(entry).encode()


@pytest.fixture(scope="module")
def converted() -> Iterator[Daemon]:
    with Daemon() as daemon:
        many = session("many-1", "/many")
        for _ in range(EQUAL_LINES):
            many.user("the same words")
        made = [many, *(session(name).user("common search term") for name in COMMON)]
        for name, failed in DEPLOY.items():
            call = Call("Bash", {"command": "deploy application"}, "tc_1")
            made.append(session(name, f"/{name}").assistant(calls=[call]).result(call, "deploy ended", error=failed))
        made.append(session("noted-1", "/home/user/project-b").custom("something to keep", "memo"))
        for one in made:
            daemon.write(f"{one.id}.jsonl", b"".join(bare(line) + b"\n" for line in one.lines()))
        daemon.sync()
        yield daemon


def test_equal_lines_are_counted_each(converted: Daemon) -> None:
    """Nothing tells them apart but their places."""
    assert converted.call("get_session_meta", sessionId="many-1")["messageCount"] == EQUAL_LINES


def test_sessions_that_say_the_same_are_each_there(converted: Daemon) -> None:
    """They begin alike in one project, so a search shows one of them, and lists the others when it is asked for what is similar."""
    listed = converted.call("list_sessions", cwd="/project", limit=3)
    assert (listed["total"], len(listed["sessions"])) == (len(COMMON), 3)
    for left_out in ([], COMMON[:2]):
        (hit,) = converted.call("search", query="common", limit=3, exclude=left_out)["results"]
        assert hit["similar"] == len(COMMON) - len(left_out) - 1
        others = converted.call("search", query="common", exclude=left_out, similarTo=hit["sessionId"])["results"]
        assert {hit["sessionId"], *(other["sessionId"] for other in others)} == set(COMMON) - set(left_out)
    for name in COMMON:
        (hit,) = converted.call("search", query="common", exclude=[other for other in COMMON if other != name])[
            "results"
        ]
        assert (hit["sessionId"], hit["similar"]) == (name, 0)


@pytest.mark.parametrize("query", ["deploy", "*"])
@pytest.mark.parametrize("status", ["error", "success"])
def test_a_call_has_its_own_sessions_result(converted: Daemon, query: str, status: str) -> None:
    """Though another session's call has the same id, arguments and place."""
    found = converted.call("search", query=query, tool="Bash", status=status)["results"]
    assert [hit["sessionId"] for hit in found] == [
        name for name, failed in DEPLOY.items() if failed == (status == "error")
    ]


def test_notes_of_extensions_are_found_by_their_type(converted: Daemon) -> None:
    """It stands before their text."""
    assert converted.found("memo") == ["noted-1"]


def test_a_session_without_a_name_has_its_first_prompt(converted: Daemon) -> None:
    """Better than none."""
    assert converted.call("get_session_meta", sessionId=COMMON[0])["name"] == "common search term"


def test_a_directory_is_whole_parts_of_a_path(converted: Daemon) -> None:
    """Its beginning is another directory."""
    for cwd, total in (("/home/user/project", 0), ("/home/user/project-b", 1), ("/home/user", 1)):
        assert converted.call("list_sessions", cwd=cwd)["total"] == total


def test_a_status_is_one_of_calls(converted: Daemon) -> None:
    """With a tool or without, sessions without such calls are left out."""
    found = {hit["sessionId"] for hit in converted.call("search", query="*", status="error")["results"]}
    assert found == {"deploy-failed"}
