"""What the person has in the real pi: `/sessions`, and a daemon that knows at once what was said."""

import json
import os
import re

import pytest

from tests.pi.conftest import SetDesk
from tests.support.chat import Use
from tests.support.claude import ClaudeSession
from tests.support.daemon import eventually
from tests.support.desk import Desk, Talk
from tests.support.followed import FollowedSession

PLUM = "019e0000-0000-7000-8000-000000000001"


def test_sessions_are_found_chosen_and_opened(desk: Desk) -> None:
    with desk.talk() as talk:
        command = talk.send("prompt", message="/sessions plum tree")
        asked = talk.until("extension_ui_request", method="select")
        (option,) = asked["options"]
        before, _, passage = option.partition("  why does")
        assert re.fullmatch(r" 1  2026-03-01 \d\d:\d\d  Plum tree care  pi code/garden", before)
        assert passage == " the plum tree not bear fruit?"
        talk.send("extension_ui_response", id=asked["id"], value=option)
        act(talk, "Open it")
        talk.until("response", id=command)
        assert talk.get("get_state")["sessionId"] == PLUM
        assert "why does the plum tree not bear fruit?" in json.dumps(talk.get("get_messages"))


def act(talk: Talk, what: str) -> None:
    """Say what is to be done with the session that was chosen."""
    asked = talk.until("extension_ui_request", method="select")
    (option,) = (option for option in asked["options"] if option.startswith(what))
    talk.send("extension_ui_response", id=asked["id"], value=option)


def test_a_session_is_forked_or_taken_into_the_prompt(desk: Desk) -> None:
    with desk.talk() as talk:
        for what in ("Take it", "Fork it"):
            command = talk.send("prompt", message="/sessions plum tree")
            asked = talk.until("extension_ui_request", method="select")
            talk.send("extension_ui_response", id=asked["id"], value=asked["options"][0])
            act(talk, what)
            if what == "Take it":
                put = talk.until("extension_ui_request", method="set_editor_text")["text"]
                assert put == f"@@{PLUM} "
            talk.until("response", id=command)
        state = talk.get("get_state")
        assert state["sessionId"] != PLUM
        assert "why does the plum tree not bear fruit?" in json.dumps(talk.get("get_messages"))
    desk.daemon.sync()
    assert desk.daemon.call("get_session_meta", sessionId=state["sessionId"])["parentSessionId"] == PLUM


def test_filters_of_the_command(desk: Desk) -> None:
    desk.keep(desk.session(5, cwd="/elsewhere/orchard").user("plum elsewhere").name("Elsewhere"))
    desk.daemon.sync()
    with desk.talk() as talk:
        for words, names in (
            ("plum", ["Plum tree care", "Elsewhere"]),
            ("plum --cwd .", ["Plum tree care"]),
            ("cwd:/elsewhere", ["Elsewhere"]),
            ("plum before:2026-03-04 source:pi tool:shell", ["Plum tree care"]),
        ):
            command = talk.send("prompt", message=f"/sessions {words}")
            asked = talk.until("extension_ui_request", method="select")
            talk.send("extension_ui_response", id=asked["id"], cancelled=True)
            talk.until("response", id=command)
            assert sorted(option.split("  ")[2] for option in asked["options"]) == sorted(names), words
        talk.send("prompt", message="/sessions plum --pathh x")
        said = talk.until("extension_ui_request", method="notify")
    assert said["message"].startswith("there is no filter --pathh; there are --cwd, --path")


def test_a_working_model_is_not_stopped_without_asking(desk: Desk) -> None:
    os.mkfifo(desk.work / "fifo")
    desk.model.says(Use("bash", {"command": "read line < fifo"}))
    with desk.talk() as talk:
        talk.get("prompt", message="wait for it")
        talk.until("tool_execution_start")
        talk.send("prompt", message="/sessions plum tree")
        asked = talk.until("extension_ui_request", method="select")
        talk.send("extension_ui_response", id=asked["id"], value=asked["options"][0])
        act(talk, "Open it")
        asked = talk.until("extension_ui_request", method="confirm")
        talk.send("extension_ui_response", id=asked["id"], confirmed=False)
        (desk.work / "fifo").write_text("go\n")
        talk.until("agent_end")
        assert talk.get("get_state")["sessionId"] != PLUM
    assert asked["title"] == "The model is still answering"


def test_without_words_the_latest_of_this_project(desk: Desk) -> None:
    desk.keep(desk.session(5, cwd="/elsewhere").user("far away"))
    desk.daemon.sync()
    with desk.talk() as talk:
        talk.send("prompt", message="/sessions")
        asked = talk.until("extension_ui_request", method="select")
        talk.send("extension_ui_response", id=asked["id"], cancelled=True)
    assert [option.split("  ")[2] for option in asked["options"]] == ["Medlar", "Plum tree care"]


@pytest.mark.parametrize(
    ("gone", "reason"),
    [(False, "; open it with `claude --resume "), (True, ", and its directory does not exist: /no/such/garden")],
)
def test_a_session_of_another_agent_is_not_opened_but_can_be_asked_about(
    set_desk: SetDesk, gone: bool, reason: str
) -> None:
    desk = set_desk(running=False)
    other = desk.daemon.home / "claude"
    other.mkdir()
    desk.daemon.configure({"sources": [{"parser": "claude", "path": str(other)}]})
    session = ClaudeSession(cwd="/no/such/garden" if gone else str(desk.work)).user("graft the apple")
    session.write(other / f"{session.id}.jsonl")
    with desk.daemon as daemon:
        daemon.sync()
        with desk.talk() as talk:
            talk.send("prompt", message="/sessions apple")
            asked = talk.until("extension_ui_request", method="select")
            talk.send("extension_ui_response", id=asked["id"], value=asked["options"][0])
            act(talk, "Open it")
            said = talk.until("extension_ui_request", method="notify")["message"]
            put = talk.until("extension_ui_request", method="set_editor_text")["text"]
    assert said.startswith(f"pi cannot open it: it is a session of claude{reason}")
    assert put == f"@@{session.id[:8]} "


def test_a_session_of_another_machine_is_not_opened(set_desk: SetDesk) -> None:
    """Also one of pi's: what lies here of it is no file of pi's."""
    desk = set_desk(running=False)
    desk.daemon.configure({"sources": [], "hub": {"dsn": "host=/nonexistent user=anna", "follow": ["**"]}})
    desk.daemon.allowed.append("no connection to the hub")
    with desk.daemon as daemon:
        FollowedSession("0199aaaa-there", source="pi").user("graft the apple").about().write(daemon.data_dir / "hub")
        daemon.sync()
        with desk.talk() as talk:
            talk.send("prompt", message="/sessions apple")
            asked = talk.until("extension_ui_request", method="select")
            talk.send("extension_ui_response", id=asked["id"], value=asked["options"][0])
            act(talk, "Open it")
            said = talk.until("extension_ui_request", method="notify")["message"]
    assert "of anna" in asked["options"][0]
    assert said.startswith("pi cannot open it: it is a session of anna, and it is a session of workstation 0a1b2c3d")


def test_a_slip_is_said_above_the_list(desk: Desk) -> None:
    """With what was searched instead; a match is not weak because of it."""
    desk.keep(desk.session(3).user("when is the medlar ripe?"))
    desk.daemon.sync()
    with desk.talk() as talk:
        talk.send("prompt", message="/sessions medalr")
        asked = talk.until("extension_ui_request", method="select")
    assert asked["title"] == "Sessions with medalr, searched for medlar"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("medlar in march 2026", "in march 2026: 1\N{EN DASH}31 Mar"),
        ("medlar in march 2020", "nothing in march 2020"),
        ("march 2026", "by time: on: or after:"),
    ],
)
def test_a_time_is_said_above_the_list(desk: Desk, words: str, said: str) -> None:
    """Which days it is; and where there is nothing, or nothing but a time, what to do."""
    desk.keep(desk.session(3).user("when is the medlar ripe? in march?"))
    desk.daemon.sync()
    with desk.talk() as talk:
        talk.send("prompt", message=f"/sessions {words}")
        asked = talk.until("extension_ui_request", method="select")
    assert asked["title"].startswith(f"Sessions with {words}, {said}")


def test_nothing_found_is_said(desk: Desk) -> None:
    with desk.talk() as talk:
        talk.send("prompt", message="/sessions rhubarb")
        said = talk.until("extension_ui_request", method="notify")
    assert said["message"] == "No past session matches rhubarb"


def test_what_was_just_said_is_found_by_the_next_session(set_desk: SetDesk) -> None:
    """No events, no sweep: it is pi that tells."""
    desk = set_desk(watch="off", sweepSeconds=3600)
    desk.model.says("The greengage it is.")
    desk.ask("which tree shall we plant?")
    assert len(desk.daemon.found("greengage")) == 1  # not `fresh`
    desk.model.says(Use("search_sessions", {"query": "greengage"}))
    desk.ask("what did we say about it?")
    assert "which tree shall we plant?" in desk.model.tool_results()[0]


def test_a_running_session_is_told_of_when_the_agent_settles(set_desk: SetDesk) -> None:
    desk = set_desk(watch="off", sweepSeconds=3600)
    desk.model.says("The mirabelle it is.", "Yes.")
    with desk.talk() as talk:
        talk.prompt("which one?")
        assert eventually(lambda: desk.daemon.found("mirabelle"))


def test_a_session_that_is_kept_where_nobody_looks_is_told_once(desk: Desk) -> None:
    elsewhere = desk.daemon.home / "elsewhere"
    with desk.talk("--session-dir", str(elsewhere)) as talk:
        talk.send("prompt", message="go")
        said = talk.until("extension_ui_request", method="notify")
        talk.passed.clear()
        talk.prompt("go on")
        talk.get("get_state")
    assert said["message"].startswith(f"sesame does not look into {elsewhere}")
    assert not [message for message in talk.passed if message.get("method") == "notify"]


def test_loading_it_opens_nothing(desk: Desk) -> None:
    """pi loads extensions for its help as well."""
    before = desk.daemon.call("status")["queries"]["count"]
    assert desk.shell(*desk.command("--help")).code == 0
    assert desk.daemon.call("status")["queries"]["count"] == before
