"""The tools in the real pi: the model calls, the daemon answers, and the answer reaches the model."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sesamectl import __version__
from tests.pi.conftest import SetDesk
from tests.support.chat import Use
from tests.support.daemon import eventually
from tests.support.desk import REPOSITORY, Desk

OF_VERSION = REPOSITORY / "tests/support/of_version.py"
PLUM = "019e0000-0000-7000-8000-000000000001"


def test_a_search_reaches_the_model_and_the_person(desk: Desk) -> None:
    desk.model.says(Use("search_sessions", {"query": "plum fruit rhubarb"}))
    ran = desk.ask("have we talked about plums?", mode="print")
    (told,) = desk.model.tool_results()
    assert '1. "Plum tree care"\n' in told
    assert f"id {PLUM}; pi; 2026-03-01; {desk.work}; 3 messages" in told
    assert "has: plum, fruit; lacks: rhubarb" in told
    assert "> why does the plum tree not bear fruit?" in told
    assert f'read_session {{"session":"{PLUM}","around":0}}' in told
    assert "Nowhere in any session: rhubarb." in told
    assert '"Plum tree care"' in ran.out


def test_the_running_session_is_left_out(desk: Desk) -> None:
    desk.model.says(Use("search_sessions", {"query": "gooseberry"}), Use("list_sessions", {}))
    desk.ask("what about the gooseberry?")
    found, listed = desk.model.tool_results()
    assert found.startswith("No past sessions match")
    assert "Places that hold each word, whatever the filters: gooseberry: 1." in found  # it is indexed already
    assert listed.startswith("Past sessions 1-2 of 2")
    assert listed.index("Medlar") < listed.index("Plum")


def test_what_the_tools_gave_is_not_found_as_history(desk: Desk) -> None:
    desk.model.says(Use("search_sessions", {"query": "quince"}), "nothing more")
    desk.ask("go")
    desk.daemon.sync()
    assert desk.daemon.found("quince") == [PLUM]


def test_a_time_at_the_end(desk: Desk) -> None:
    """The model is told what it meant, and when it meant nothing that there is."""
    queries = ("plum in march 2026", "plum in march 2020", '"plum" "march 2020"')
    desk.model.says(*(Use("search_sessions", {"query": query}) for query in queries))
    desk.ask("go", "--no-session")
    acts, nothing, quoted = desk.model.tool_results()
    assert PLUM in acts
    assert "Only in march 2026 (1\N{EN DASH}31 Mar" in acts
    assert PLUM in nothing
    assert "Nothing in march 2020 (1\N{EN DASH}31 Mar 2020): searched in all times instead." in nothing
    assert "march 2020 (" not in quoted


def test_filters(desk: Desk) -> None:
    desk.keep(desk.session(9, cwd="/elsewhere").user("plum elsewhere"))
    given: list[dict[str, str]] = [
        {"cwd": "."},
        {"before": "2026-03-05"},
        {"tool": "exec_command"},  # what others call bash
        {"tool": "=bash"},
        {"cwd": "~/code", "after": "2025-01-01"},
        {"on": "1 march 2026"},
    ]
    desk.model.says(*(Use("search_sessions", {"query": "plum", **filters}) for filters in given))
    desk.ask("go", "--no-session")
    told = desk.model.tool_results()
    assert len(told) == len(given)
    assert all("1 past session match" in one and PLUM in one for one in told), told


def test_a_session_is_read_around_a_hit_and_page_by_page(desk: Desk) -> None:
    desk.model.says(Use("read_session", {"session": PLUM, "around": 2, "limit": 2}))
    desk.ask("go")
    (page,) = desk.model.tool_results()
    assert "[2] tool bash, 2026-03-01" in page
    assert "> command: prune --plum" in page
    assert "> pruned three branches" in page
    turn = json.loads(re.findall(r"(?:Before|After): read_session (.*)", page)[0])
    desk.model.says(Use("read_session", turn))
    desk.ask("go on")
    (page,) = desk.model.tool_results()
    assert "> why does the plum tree" in page


def test_how_a_session_ended_is_one_call(desk: Desk) -> None:
    desk.model.says(
        Use("read_session", {"session": PLUM, "offset": -1}), Use("read_session", {"session": PLUM, "around": 99})
    )
    desk.ask("go", "--no-session")
    end, beyond = desk.model.tool_results()
    assert "[3] to [3] of its messages and tool calls, which are [0] to [3]." in end
    assert "> Plant a quince beside it." in end
    assert "There is no [99]." in beyond


def test_numbers_beyond_the_bounds_cost_no_turn(desk: Desk) -> None:
    desk.model.says(
        Use("search_sessions", {"query": "plum", "limit": 500, "offset": -1}),
        Use("list_sessions", {"limit": 0}),
        Use("read_session", {"session": PLUM, "limit": 1000}),
    )
    desk.ask("go", "--no-session")
    found, listed, read = desk.model.tool_results()
    assert "1 past session matches" in found
    assert "Past sessions 1-1 of 2" in listed
    assert "[0] to [3] of" in read


def test_what_was_said_about_a_session_is_told(desk: Desk) -> None:
    """A search by a tag is of no use to whoever does not see the tag."""
    desk.daemon.call("set_session_meta", sessionId=PLUM, summary="Pruned, quince ordered.", tags=["orchard"])
    desk.model.says(
        Use("search_sessions", {"query": "orchard"}), Use("list_sessions", {}), Use("read_session", {"session": PLUM})
    )
    desk.ask("go", "--no-session")
    found, listed, read = desk.model.tool_results()
    for told in (found, listed, read):
        assert 'summary: "Pruned, quince ordered."' in told
    assert "its tags:\n   > orchard" in found
    assert "tags: orchard" in listed
    assert "tags: orchard" in read


def test_no_answer_is_longer_than_it_says(desk: Desk) -> None:
    for number in range(3, 28):
        name = f"Ditch {number} " + "n" * 90
        session = (
            desk.session(number).user(f"dig a ditch {number} " + "\n".join("deep" * 9 for _ in range(300))).name(name)
        )
        for call in range(40):
            session.tool(f"tool_{call}_{'t' * 60}", {"command": "dig\n" * 50}, "a\nb\n" * 300)
        desk.keep(session)
    desk.daemon.sync()
    for number in range(3, 28):
        words = {"summary": "s " * 400, "description": "d" * 900, "tags": [f"{tag}{'t' * 30}" for tag in range(20)]}
        desk.daemon.call("set_session_meta", sessionId=desk.session(number).id, **words)
    desk.model.says(
        Use("search_sessions", {"query": "dig ditch deep", "limit": 20}),
        Use("list_sessions", {"limit": 50}),
        Use("read_session", {"session": desk.session(3).id, "limit": 50}),
        Use("read_session", {"session": desk.session(3).id, "limit": 50, "around": 20}),
    )
    desk.ask("go", "--no-session")
    for told in desk.model.tool_results():
        assert 5_000 < len(told) <= 20_000


def test_a_session_is_read_by_its_name(desk: Desk) -> None:
    desk.model.says(Use("read_session", {"session": "medlar"}))
    desk.ask("go")
    (page,) = desk.model.tool_results()
    assert "> water the medlar on Monday" in page  # without the colour


def test_long_sessions_stay_small_and_can_be_read_whole(desk: Desk) -> None:
    text = "".join(f"{number:06} " for number in range(8_000))
    desk.keep(desk.session(3).user(text).assistant("short").name("Long"))
    desk.daemon.sync()
    desk.model.says(Use("read_session", {"session": "Long"}))
    desk.ask("go", "--no-session")
    (page,) = desk.model.tool_results()
    assert len(page) < 25_000
    assert "> short" in page
    read = 0
    while turn := re.search(r"\[cut; the rest: read_session (.*)\]", page):
        shown = re.search(r"^> ([\d ]+)", page, re.MULTILINE)
        assert shown is not None
        assert text[read:].startswith(shown[1].rstrip())
        read = json.loads(turn[1])["textOffset"]
        desk.model.says(Use("read_session", json.loads(turn[1])))
        desk.ask("go on", "--no-session")
        (page,) = desk.model.tool_results()
    assert "007999" in page


def test_a_long_message_with_tabs_is_read_on_without_a_gap(desk: Desk) -> None:
    lines = [f"\tif n == {number} {{\n\t\t\treturn line{number:05}\n" for number in range(2_000)]
    desk.keep(desk.session(3).user("".join(lines)).name("Go file"))
    desk.daemon.sync()
    turn: dict[str, object] = {"session": "Go file", "limit": 1}
    read = ""
    while turn:
        desk.model.says(Use("read_session", turn))
        desk.ask("go", "--no-session")
        (page,) = desk.model.tool_results()
        assert len(page) <= 20_000
        read += "".join(line[2:].strip() for line in page.split("\n") if line.startswith(">")).replace("…", "")
        rest = re.search(r"\[cut; the rest: read_session (.*)\]", page)
        turn = json.loads(rest[1]) if rest else {}
    assert read.replace(" ", "") == "".join(lines).replace("\t", "").replace("\n", "").replace(" ", "")


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("search_sessions", {"query": "x", "after": "soon"}, "after: 'soon' is not a time; expected an ISO date"),
        ("search_sessions", {"query": "x", "limit": "many"}, "limit"),
        ("search_sessions", {}, "query"),
        ("read_session", {"session": "no such thing at all"}, "no session is called"),
        ("read_session", {"session": "nosuchthing"}, "list_sessions shows the sessions"),
        ("search_sessions", {"query": "x", "source": "pie"}, "pie"),
    ],
)
def test_a_wrong_call_is_an_error_that_says_why(desk: Desk, tool: str, given: dict[str, object], said: str) -> None:
    desk.model.says(Use(tool, given))
    ran = desk.ask("go", "--no-session")
    assert ran.tool_end()["isError"] is True
    assert said in desk.model.tool_results()[0]


def test_an_ambiguous_session_is_an_error_that_lists_the_candidates(desk: Desk) -> None:
    desk.keep(desk.session(3).user("a").name("Twin"), desk.session(4).user("b").name("Twin"))
    desk.daemon.sync()
    desk.model.says(Use("read_session", {"session": "twin"}))
    ran = desk.ask("go", "--no-session")
    assert ran.tool_end()["isError"] is True
    told = desk.model.tool_results()[0]
    assert "fits 2 sessions" in told
    assert f'- {desk.session(3).id} "Twin" 2026-03-03' in told
    assert f'- {desk.session(4).id} "Twin" 2026-03-04' in told


def test_numbers_given_as_text_are_numbers(desk: Desk) -> None:
    desk.model.says(Use("search_sessions", {"query": "plum", "limit": "1"}))
    ran = desk.ask("go", "--no-session")
    assert ran.tool_end()["isError"] is False
    details = ran.tool_end()["result"]["details"]
    assert details == {"via": "socket", "started": False, "shown": 1, "total": 1, "sessions": [PLUM]}


def test_a_daemon_that_does_not_run_is_started(set_desk: SetDesk) -> None:
    desk = set_desk(running=False)
    desk.keep(desk.session(1).user("the plum tree"))
    desk.model.says(Use("search_sessions", {"query": "plum"}))
    try:
        ran = desk.ask("go")
        (told,) = desk.model.tool_results()
        assert f"id {PLUM[:8]};" in told
        assert told.endswith("[sesamed was not running and has been started]")
        assert ran.tool_end()["result"]["details"]["started"] is True
    finally:
        assert desk.shell("sesamectl", "stop").code == 0


def test_an_older_daemon_is_restarted_by_the_first_question(set_desk: SetDesk) -> None:
    """Somebody who only ever uses pi would keep it for good."""
    desk = set_desk(running=False)
    desk.keep(desk.session(1).user("the plum tree"))
    environ = desk.surroundings()
    old = subprocess.Popen([sys.executable, str(OF_VERSION), "0.0.1"], env=environ, stderr=subprocess.DEVNULL)
    reaper = threading.Thread(target=old.wait)  # or its pid would stay in use
    reaper.start()
    try:
        eventually(lambda: os.path.exists(desk.daemon.socket) or old.poll() is not None)
        desk.model.says(Use("search_sessions", {"query": "plum"}))
        desk.ask("go")
        (told,) = desk.model.tool_results()
        assert "> the plum tree" in told
        reaper.join(30)
        assert old.returncode == 0
        assert json.loads(desk.shell("sesamectl", "status", "--json").out)["version"] == __version__
    finally:
        old.kill()
        reaper.join()
        assert desk.shell("sesamectl", "stop").code == 0


def test_without_daemon_and_program_the_error_says_what_to_do(set_desk: SetDesk) -> None:
    desk = set_desk(running=False)
    desk.environ["SESAMECTL"] = "/nonexistent/sesamectl"
    desk.model.says(Use("search_sessions", {"query": "plum"}))
    ran = desk.ask("go")
    assert ran.tool_end()["isError"] is True
    (told,) = desk.model.tool_results()
    assert f"nothing listens at {desk.daemon.socket}" in told
    assert "no `/nonexistent/sesamectl` to start sesamed; install sesame" in told


def test_sesamectl_is_asked_when_the_socket_is_out_of_reach(desk: Desk) -> None:
    """As for a pi in a sandbox that has no such socket."""
    program = desk.daemon.directory / "outside"
    program.write_text(f'#!/bin/sh\n[ "$1" = start ] && exit\nSESAME_SOCKET={desk.daemon.socket} exec sesamectl "$@"\n')
    program.chmod(0o700)
    desk.environ |= {"SESAMECTL": str(program), "SESAME_SOCKET": str(desk.daemon.directory / "inside.sock")}
    calls = [
        Use("search_sessions", {"query": "plum", "cwd": ".", "limit": 3, "tool": "shell"}),
        Use("read_session", {"session": "plum-tree-care", "around": 1}),
        Use("list_sessions", {"limit": 5}),
    ]
    desk.model.says(*calls)
    ran = desk.ask("go")
    found, page, listed = desk.model.tool_results()
    assert "Plum tree care" in found
    assert "> Plant a quince beside it." in page
    assert "Medlar" in listed
    assert all("sesamectl was asked instead" in told for told in (found, page, listed))
    assert ran.tool_end()["result"]["details"]["via"] == "sesamectl"


def test_an_abort_ends_the_question(set_desk: SetDesk, tmp_path: Path) -> None:
    desk = set_desk(running=False)
    desk.daemon.runtime_dir.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(desk.daemon.socket)
        listener.listen()
        listener.settimeout(30)
        desk.model.says(Use("search_sessions", {"query": "plum"}))
        with desk.talk("--no-session") as talk:
            talk.get("prompt", message="go")
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(30)
                assert b'"hello"' in connection.recv(65536)  # versions are compared before it
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(30)
                assert b'"search"' in connection.recv(65536)
                talk.send("abort")
                assert talk.until("tool_execution_end")["isError"] is True
                assert connection.recv(1) == b""  # the daemon sees it, and stops
