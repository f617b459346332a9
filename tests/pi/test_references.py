"""`@@` in a prompt to the real pi: what a session is about goes to the model, once, and the person's words stay as they are."""

import os
import re
import socket
from typing import Any

import pytest

from sesamed.sanitize import clean_text
from tests.pi.conftest import SetDesk
from tests.support import canaries
from tests.support.chat import Use, plain
from tests.support.desk import Desk, Talk
from tests.support.sessions import PiSession

PLUM = "019e0000-0000-7000-8000-000000000001"
QUESTION = "as in @@plum-tree-care: what did we do?"


def user_texts(desk: Desk) -> list[str]:
    return [plain(message) for message in desk.model.requests[-1]["messages"] if message["role"] == "user"]


@pytest.mark.parametrize("reference", ["plum-tree-care", "Plum_Tree_Care", PLUM, f"pi:{PLUM}"])
def test_a_reference_tells_the_model_what_the_session_was_about(desk: Desk, reference: str) -> None:
    desk.ask(f"as in @@{reference}: what did we do?")
    prompt, told = user_texts(desk)
    assert prompt == f"as in @@{reference}: what did we do?"
    assert told.startswith(f'@@{reference} is the past session "Plum tree care"\nid {PLUM}; pi; 2026-03-01')
    assert "The first prompt:\n> why does the plum tree not bear fruit?" in told
    assert "The last answer:\n> Plant a quince beside it." in told
    assert f'read_session {{"session":"{PLUM}"}}' in told


def test_however_many_sessions_a_prompt_names_what_is_told_stays_small(desk: Desk) -> None:
    numbers = range(11, 19)
    for number in numbers:
        session = desk.session(number, cwd=f"/{'deep/' * 60}").user("x\n" * 3_000).assistant("y\n" * 3_000)
        desk.keep(session.name(f"Pond {number} {'n' * 200}"))
    desk.daemon.sync()
    for number in numbers:
        desk.daemon.call(
            "set_session_meta", sessionId=desk.session(number).id, description="d" * 900, tags=["t" * 90] * 9
        )
    desk.ask("see " + " ".join(f"@@{desk.session(number).id}" for number in numbers))
    (_, told) = user_texts(desk)
    assert told.count(" is the past session ") == len(numbers)
    assert 10_000 < len(told) <= 20_000


def test_a_summary_is_told_rather_than_how_it_began(desk: Desk) -> None:
    desk.daemon.call("set_session_meta", sessionId=PLUM, summary="Pruned, and a quince ordered.")
    desk.ask(QUESTION)
    _, told = user_texts(desk)
    assert "Its summary:\n> Pruned, and a quince ordered." in told
    assert "first prompt" not in told


def test_the_beginning_of_an_id_is_enough(desk: Desk) -> None:
    desk.keep(PiSession(id="7e57ab1e-0000-7000-8000-000000000001", cwd=str(desk.work)).user("dig a pond"))
    desk.daemon.sync()
    desk.ask("see @@7e57ab1e, please")
    assert "> dig a pond" in user_texts(desk)[1]


def family(desk: Desk) -> None:
    """A session, one that was begun from it, and one that was begun from that."""
    directory = str(desk.daemon.root / "--garden--")
    plum = desk.session(1).user("why does the plum tree not bear fruit?").assistant("Plant a quince beside it.")
    pear = plum.fork(id=desk.session(7).id, directory=directory).user("and the pear?").name("Pear")
    desk.keep(pear, pear.fork(id=desk.session(8).id, directory=directory).user("and the fig?").name("Fig"))
    desk.daemon.sync()
    desk.daemon.call("set_session_meta", sessionId=desk.session(7).id, summary="Pears were picked.")


def test_ancestors(desk: Desk) -> None:
    """`~2` adds two of them to what is told; where a session is meant alone, as in a tool, it is the second one."""
    family(desk)
    desk.ask("see @@fig~1.")
    _, told = user_texts(desk)
    assert re.findall(r"^@@fig~1.*", told, re.MULTILINE) == [
        '@@fig~1 is the past session "Fig"', '@@fig~1: that was begun from the past session "Pear"',
    ]  # fmt: skip
    assert "Its summary:\n> Pears were picked." in told
    desk.ask("see @@fig~2, and @@fig~9")
    _, told = user_texts(desk)
    assert '@@fig~2: and that one from the past session "Plum tree care"' in told
    assert told.count(" the past session ") == 3  # each once
    assert told.endswith("@@fig~9: 2 of these ancestors are indexed.")
    desk.model.says(Use("read_session", {"session": "fig~2"}))
    desk.ask("go", "--no-session")
    assert desk.model.tool_results()[0].startswith('Session "Plum tree care"')


def test_a_session_that_is_called_so_is_meant_without_its_ancestors(desk: Desk) -> None:
    """Of two with one id of the agent's, the second is `id~2`."""
    first, second = (
        desk.session(5).user("quinces here"),
        desk.session(5, start="2026-04-01T09:00:00.000Z").user("figs there"),
    )
    desk.keep(first)
    desk.daemon.sync()
    desk.daemon.write("--garden--/second.jsonl", second.bytes())
    desk.daemon.sync()
    desk.ask(f"see @@{second.id}~2, please")
    _, told = user_texts(desk)
    assert told.count(" the past session ") == 1
    assert "> figs there" in told


def test_it_is_told_once_and_what_was_sent_stays_as_it_was(desk: Desk) -> None:
    with desk.talk() as talk:
        for _ in range(2):
            talk.prompt(QUESTION)
    first, second = (request["messages"] for request in desk.model.requests)
    assert second[: len(first)] == first  # a prompt cache stays warm
    assert [plain(one) for one in second].count(QUESTION) == 2
    assert len([one for one in second if plain(one).startswith("@@plum-tree-care is")]) == 1


def test_it_is_told_once_over_a_restart(desk: Desk) -> None:
    desk.ask(QUESTION)
    desk.ask(QUESTION, "--continue")
    assert len([text for text in user_texts(desk) if text.startswith("@@plum-tree-care is")]) == 1


def test_what_was_told_is_not_found_as_history(desk: Desk) -> None:
    desk.ask(QUESTION)
    desk.daemon.sync()
    assert desk.daemon.found("fruit quince") == [PLUM]


def twins(desk: Desk) -> None:
    desk.keep(desk.session(3).user("a").name("Twin"), desk.session(4).user("b").name("Twin"))
    desk.daemon.sync()


def choose(talk: Talk, prompt: str, number: int | None) -> dict[str, Any]:
    """Send a prompt and choose one of what is asked; None gives up."""
    talk.send("prompt", message=prompt)
    asked = talk.until("extension_ui_request", method="select")
    answer = {"cancelled": True} if number is None else {"value": asked["options"][number]}
    talk.send("extension_ui_response", id=asked["id"], **answer)
    return asked


def test_of_several_sessions_the_person_chooses_one(desk: Desk) -> None:
    twins(desk)
    with desk.talk() as talk:
        asked = choose(talk, "see @@twin please", 1)
        talk.until("agent_end")
        talk.prompt("and @@twin again")  # nobody is asked twice
    assert asked["title"] == "@@twin: which session is meant?"
    assert [option[:6] for option in asked["options"]] == ["1  Twi", "2  Twi", "None: "]
    assert "2026-03-03" in asked["options"][1]
    prompt, told, again = user_texts(desk)
    assert (prompt, again) == ("see @@twin please", "and @@twin again")
    assert f"id {desk.session(3).id};" in told


def test_what_is_only_like_a_name_is_chosen_or_sent_as_it_is(desk: Desk) -> None:
    """Words of a name are no reference by themselves: `@@max_count` may be Ruby."""
    with desk.talk() as talk:
        choose(talk, "see @@plum-care please", -1)
        talk.until("agent_end")
        assert user_texts(desk) == ["see @@plum-care please"]
        talk.get("new_session")
        choose(talk, "see @@care-tree please", 0)
        talk.until("agent_end")
    assert user_texts(desk)[1].startswith('@@care-tree is the past session "Plum tree care"')


def test_whoever_chooses_nothing_has_the_prompt_again(desk: Desk) -> None:
    twins(desk)
    with desk.talk() as talk:
        choose(talk, "see @@twin please", None)
        given_back = talk.until("extension_ui_request", method="set_editor_text")
        talk.get("get_state")
    assert given_back["text"] == "see @@twin please"
    assert desk.model.requests == []


def test_what_is_only_like_a_name_is_not_guessed_without_a_person(desk: Desk) -> None:
    ran = desk.ask("see @@plum-care please")
    assert "@@plum-care: no session is called so" in ran.err
    assert f'nearest: {PLUM} "Plum tree care"' in ran.err
    assert user_texts(desk) == ["see @@plum-care please"]


@pytest.mark.fault(104, 105)
def test_nothing_that_a_session_is_called_passes_for_ours(desk: Desk) -> None:
    hostile = PiSession(id=f"7e57ab1e{canaries.IN_IDS}", cwd=f"/work{canaries.IN_IDS}").user(canaries.IN_TEXTS)
    desk.daemon.write("--garden--/7.jsonl", hostile.name(canaries.IN_TEXTS).bytes())
    desk.daemon.sync()
    ran = desk.ask("see @@7e57ab1e, please", mode="print")
    told = user_texts(desk)[1]
    assert clean_text(told + ran.out) == told + ran.out
    assert not [line for line in canaries.words_of(told) if "ignore all" in line], told
    assert canaries.WORD in told
    with desk.talk() as talk:
        talk.send("prompt", message=f"/sessions {canaries.WORD}")
        asked = talk.until("extension_ui_request", method="select")
        talk.send("extension_ui_response", id=asked["id"], value=asked["options"][0])
        talk.until("extension_ui_request", method="select")
    shown = "\n".join(message.get("title", "") + "\n".join(message.get("options", [])) for message in talk.passed)
    assert canaries.WORD in shown
    assert clean_text(shown) == shown


def test_three_signs_mean_no_project_more_than_another(desk: Desk) -> None:
    """The completion of `@@@` offers sessions of everywhere: what it inserts is the one that was chosen."""
    desk.keep(desk.session(3, cwd="/elsewhere").user("quinces elsewhere").name("Plum tree care"))
    desk.daemon.sync()
    desk.ask(f"as in @@{desk.session(3).id}: what did we do?")
    assert "> quinces elsewhere" in user_texts(desk)[1]
    desk.ask("as in @@plum-tree-care: what did we do?")
    assert "> why does the plum tree" in user_texts(desk)[1]
    desk.ask("as in @@@plum-tree-care: what did we do?")
    assert "fits 2 sessions" in user_texts(desk)[1]


def test_an_ambiguous_one_without_a_person_is_told_to_the_model(desk: Desk) -> None:
    twins(desk)
    desk.ask("see @@twin please")
    _, told = user_texts(desk)
    assert told.startswith("@@twin: 'twin' fits 2 sessions")
    assert told.endswith("Ask the user which one is meant.")


@pytest.mark.parametrize("names", [["Error handling"], ["Error handling", "An error in the parser"]])
def test_a_word_of_code_is_no_reference_to_a_name_that_contains_it(desk: Desk, names: list[str]) -> None:
    """`@@error` in prose is T-SQL; one word means a session only if it is all of its name."""
    for number, name in enumerate(names, 3):
        desk.keep(desk.session(number).user("a").name(name))
    desk.daemon.sync()
    with desk.talk() as talk:
        talk.send("prompt", message="what does @@error return?")
        warned = talk.until("extension_ui_request", method="notify")
        talk.until("agent_end")
        talk.passed.clear()
        talk.prompt("and @@error now?")
        assert not [message for message in talk.passed if message.get("method") == "notify"]  # said once
    assert warned["notifyType"] == "warning"
    assert warned["message"].startswith("@@error: no session is called so, and no id begins so; nearest: ")
    assert f'{desk.session(3).id} "Error handling"' in warned["message"]
    assert user_texts(desk) == ["what does @@error return?", "and @@error now?"]


def test_an_unknown_one_is_said_and_the_prompt_goes_on(desk: Desk) -> None:
    ran = desk.ask("see @@rhubarb-and-custard")
    assert "@@rhubarb-and-custard: no session is called" in ran.err
    assert user_texts(desk) == ["see @@rhubarb-and-custard"]


def test_without_a_daemon_the_prompt_goes_on(set_desk: SetDesk) -> None:
    desk = set_desk(running=False)
    desk.environ["SESAMECTL"] = "/nonexistent/sesamectl"
    ran = desk.ask("see @@plum")
    assert "@@plum: nothing listens at" in ran.err
    assert user_texts(desk) == ["see @@plum"]


def test_a_daemon_that_does_not_answer_is_waited_for_visibly_and_not_for_long(set_desk: SetDesk) -> None:
    desk = set_desk(running=False)
    desk.daemon.runtime_dir.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(desk.daemon.socket)
        listener.listen()
        with desk.talk() as talk:
            talk.send("prompt", message="see @@plum")
            shown = talk.until("extension_ui_request", method="setStatus")
            warned = talk.until("extension_ui_request", method="notify")
            talk.until("agent_end")
    assert shown["statusText"].startswith("waiting for sesamed …")
    assert "did not answer resolve_session within 3 s" in warned["message"]
    assert user_texts(desk) == ["see @@plum"]


def test_one_in_a_prompt_to_a_working_model_travels_with_it(desk: Desk) -> None:
    """By itself it would be answered by itself, and the prompt after it."""
    os.mkfifo(desk.work / "fifo")
    desk.model.says(Use("bash", {"command": "read line < fifo"}))
    with desk.talk() as talk:
        talk.get("prompt", message="wait for it")
        talk.until("tool_execution_start")
        talk.get("prompt", message=QUESTION, streamingBehavior="steer")
        (desk.work / "fifo").write_text("go\n")
        talk.until("agent_end")
        talk.prompt(QUESTION)
    texts = user_texts(desk)
    (steered,) = (text for text in texts if text.startswith(QUESTION) and text != QUESTION)
    assert '"]>\n@@plum-tree-care is the past session "Plum tree care"\n' in steered
    assert "".join(texts).count("@@plum-tree-care is the past") == 1
    assert len(desk.model.requests) == 3  # before and after the command, and the last prompt
    desk.daemon.sync()
    assert desk.daemon.found("fruit quince") == [PLUM]  # what was told is not what the person said
