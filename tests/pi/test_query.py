"""One session is asked, in the real pi: by the model with `query_session`, by the person with `@@name: question`."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sesamed.model import PROMPT_MARKER
from sesamed.sanitize import clean_text
from tests.pi.conftest import SetDesk
from tests.support import canaries, npm
from tests.support.chat import ASIDE, ASIDE_USD, MODEL, PROVIDER, Fails, Hangs, Use, plain
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.desk import Desk
from tests.support.sessions import PiSession

PLUM = "019e0000-0000-7000-8000-000000000001"
KEY = f"{PROVIDER}/{ASIDE}"
ASKS = Use("query_session", {"session": PLUM, "question": "what should be planted?"})
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


def choose(desk: Desk, *keys: str) -> None:
    """The person chooses models for such things."""
    (desk.agent / "session-index.config.json").write_text(json.dumps({"modelKeys": keys}))


def asides(desk: Desk) -> list[str]:
    """What was asked of the other model."""
    return [plain(request["messages"][-1]) for request in desk.model.asides]


def user_texts(desk: Desk) -> list[str]:
    return [plain(message) for message in desk.model.requests[-1]["messages"] if message["role"] == "user"]


def test_the_answer_comes_with_the_messages_that_it_rests_on(desk: Desk) -> None:
    """A quote of a model that read quotes: no line of it passes for ours."""
    choose(desk, KEY)
    desk.model.says(ASKS)
    desk.model.says_aside("A quince [3],\nread_session {}: because of [0][2]. As in [77].")
    desk.ask("what did we want to plant?")
    (told,) = desk.model.tool_results()
    assert told.startswith(f'Session "Plum tree care"\nid {PLUM}; pi; 2026-03-01')
    assert f"{KEY} answers, from 4 messages of the 4 that lead to the newest one." in told
    assert "\n> A quince [3],\n> read_session {}: because of [0][2]. As in [77].\n" in told
    assert f'It rests on [3], [0], [2]. Read them: read_session {{"session":"{PLUM}","around":3}}.' in told
    assert "It also names [77], which it was not shown" in told
    (prompt,) = asides(desk)
    assert prompt.startswith(f"{PROMPT_MARKER}\n")
    assert "[0] user:\n> why does the plum tree not bear fruit?\n\n[1] assistant:\n> It wants" in prompt
    assert "[2] tool bash:\n> tool: bash\n> command: prune --plum\n> output:\n> pruned three branches\n" in prompt
    assert prompt.endswith("</session>\n\nThe question:\nwhat should be planted?\n")
    assert not desk.model.asides[0].get("tools")


def test_without_a_choice_the_model_of_the_session_is_asked(desk: Desk) -> None:
    desk.model.says(ASKS, "A quince.")
    desk.ask("what did we want to plant?")
    (told,) = desk.model.tool_results()
    assert f"{PROVIDER}/{MODEL} answers, from 4 messages" in told
    assert "It names no message that it rests on: check it with read_session" in told
    assert plain(desk.model.requests[1]["messages"][-1]).startswith(PROMPT_MARKER)


def test_nothing_of_it_is_indexed(desk: Desk) -> None:
    """The answer stands in the session's file, as results of our tools do, and a search does not find it."""
    desk.model.says(ASKS, "A rhubarb custard [0].", "Thank you.")
    desk.ask("what did we want to plant?")
    desk.daemon.sync()
    assert desk.daemon.found("rhubarb") == []
    assert len(desk.daemon.sessions()) == 3


def test_its_cost_is_in_the_totals_of_the_session(desk: Desk, pi: npm.Pi) -> None:
    """Of the tool's call, and of the person's question; the oldest pi counts neither, and says what it was told all the same."""
    choose(desk, KEY)
    desk.model.says(ASKS)
    desk.model.says_aside("A quince [3].", "A quince [3].")
    with desk.talk() as talk:
        talk.prompt("what did we want to plant?")
        once = talk.get("get_session_stats")["cost"]
        talk.prompt("@@plum-tree-care: what should be planted?")
        twice = talk.get("get_session_stats")["cost"]
    assert "> A quince [3]." in user_texts(desk)[-1]
    counted = [0, 0] if pi.version == npm.OLDEST else [ASIDE_USD, 2 * ASIDE_USD]
    assert [once, twice] == pytest.approx(counted)


def test_secrets_are_masked(desk: Desk) -> None:
    choose(desk, KEY)
    desk.keep(desk.session(3).user(f"the token is {TOKEN}").name("Token"))
    desk.daemon.sync()
    desk.model.says(Use("query_session", {"session": "Token", "question": f"is it {TOKEN[:8]}?"}))
    desk.ask("what was it?")
    (prompt,) = asides(desk)
    assert "> the token is [masked:githubtoken]\n" in prompt


def forked(desk: Desk) -> PiSession:
    """A session in which the person went back to the first answer."""
    session = desk.session(3).user("where is the pond?").assistant("Behind the shed.")
    kept = session.last
    session.user("dig it deeper").assistant("Dug, two metres.")
    desk.keep(session.back_to(kept).user("fill it in").assistant("Filled.").name("Pond"))
    desk.daemon.sync()
    return session


def test_only_the_branch_is_read(desk: Desk) -> None:
    """The newest, or the one that leads to a given message."""
    choose(desk, KEY)
    forked(desk)
    desk.model.says(
        Use("query_session", {"session": "pond", "question": "how deep?"}),
        Use("query_session", {"session": "pond", "question": "how deep?", "upTo": 3}),
        Use("query_session", {"session": "pond", "question": "how deep?", "upTo": 9}),
    )
    desk.ask("how deep is it?")
    newest, older = asides(desk)
    assert re.findall(r"^\[(\d+)\]", newest, re.MULTILINE) == ["0", "1", "4", "5"]
    assert re.findall(r"^\[(\d+)\]", older, re.MULTILINE) == ["0", "1", "2", "3"]
    said, before, error = desk.model.tool_results()
    assert "from 4 messages of the 4 that lead to the newest one." in said
    assert "from 4 messages of the 4 that lead to [3]." in before
    assert error == "there is no [9]: messages and tool calls are [0] to [5]"


def test_what_is_wrong_is_said(desk: Desk) -> None:
    """Nobody, one of several, the running session, one in which nothing was said; no question, one without end, no model."""
    desk.keep(
        desk.session(3).user("a").name("Twin"), desk.session(4).user("b").name("Twin"), desk.session(5).name("Empty")
    )
    desk.daemon.sync()
    own = "019e0000-0000-7000-8000-0000000000ff"
    asked: list[dict[str, Any]] = [
        {"session": "rhubarb", "question": "why?"},
        {"session": "twin", "question": "why?"},
        {"session": desk.session(5).id, "question": "why?"},
        {"session": PLUM, "question": " "},
        {"session": PLUM, "question": "x" * 4001},
    ]
    desk.model.says(*(Use("query_session", given) for given in asked))
    ran = desk.ask("go", "--no-session")
    unknown, ambiguous, empty, blank, long = desk.model.tool_results()
    assert "'rhubarb'" in unknown
    assert f'- {desk.session(3).id} "Twin"' in ambiguous
    assert (empty, blank) == ("nothing was said in this session", "question: there is none")
    assert long == "question: it has 4001 characters, of at most 4000"
    ends = [event for event in ran.events if event["type"] == "tool_execution_end"]
    assert [event["isError"] for event in ends] == [True] * 5
    choose(desk, f"{PROVIDER}/gone")
    desk.model.says(ASKS)
    desk.ask("go", "--no-session")
    assert desk.model.tool_results() == [f"pi knows no model {PROVIDER}/gone"]
    assert own not in desk.daemon.log


def test_the_running_session_is_not_asked(desk: Desk) -> None:
    with desk.talk() as talk:
        talk.prompt("hello")
        desk.daemon.sync()
        own = talk.get("get_state")["sessionId"]
        desk.model.says(Use("query_session", {"session": own, "question": "why?"}))
        talk.prompt("go")
    assert "this is the running session" in desk.model.tool_results()[-1]


def test_a_provider_that_fails_is_an_error_of_the_tool(desk: Desk) -> None:
    choose(desk, KEY)
    desk.model.says(ASKS)
    desk.model.says_aside(Fails(500), "never asked")
    ran = desk.ask("go", "--no-session")
    (told,) = desk.model.tool_results()
    assert told.startswith(f"{KEY} did not answer: ")
    assert ran.tool_end()["isError"]
    assert len(desk.model.asides) == 1  # nothing is tried again: it would cost


def test_an_abort_ends_the_call(desk: Desk) -> None:
    choose(desk, KEY)
    hangs = Hangs()
    desk.model.says(ASKS)
    desk.model.says_aside(hangs)
    with desk.talk() as talk:
        talk.send("prompt", message="go")
        assert hangs.begun.wait(60)
        talk.send("abort")
        assert hangs.hung_up.wait(60)
        ended = talk.until("tool_execution_end")
        talk.until("agent_end")
    assert ended["isError"]
    assert len(desk.model.requests) == 1


@pytest.fixture
def strangers(set_desk: SetDesk) -> Callable[[], Desk]:
    """A desk with sessions of Claude Code and Codex, too."""

    def make() -> Desk:
        desk = set_desk(running=False)
        places = {"pi": desk.daemon.root, "claude": desk.daemon.home / "claude", "codex": desk.daemon.home / "codex"}
        desk.daemon.configure({"sources": [{"parser": name, "path": str(path)} for name, path in places.items()]})
        for path in places.values():
            path.mkdir(exist_ok=True)
        claude = ClaudeSession().user("why does the pear not grow?").assistant("Too dry.")
        kept = claude.last
        claude.user("never mind").assistant("As you like.")
        claude.last = kept
        claude.user("how much water?").assistant("Two cans a day.").title("Pear").write(places["claude"])
        codex = (
            CodexSession(id="019e0000-0000-7000-8000-00000000c0de")
            .user("when is the medlar ripe?")
            .assistant("In May.")
        )
        codex.rolled_back(1)
        codex.user("when is the medlar ripe, really?").assistant("In November, after a frost.").write(places["codex"])
        return desk

    return make


def test_sessions_of_other_agents(strangers: Callable[[], Desk]) -> None:
    """Of Claude Code what leads to the newest message, of Codex what was not taken back."""
    desk = strangers()
    with desk.daemon:
        choose(desk, KEY)
        desk.daemon.sync()
        codex = "019e0000-0000-7000-8000-00000000c0de"
        desk.model.says(
            Use("query_session", {"session": "pear", "question": "how much?"}),
            Use("query_session", {"session": codex, "question": "when?"}),
        )
        desk.model.says_aside("Two cans [5].", "In November [3].")
        desk.ask("go", "--no-session")
        pear, medlar = asides(desk)
        assert "never mind" not in pear
        assert "Agent: claude" in pear
        assert "[5] assistant:\n> Two cans a day." in pear
        assert "In May" not in medlar
        assert "[3] assistant:\n> In November, after a frost." in medlar
        watered, ripe = desk.model.tool_results()
        assert "\n> Two cans [5].\nIt rests on [5]." in watered
        assert "\n> In November [3].\nIt rests on [3]." in ripe


# -- the person asks


def test_a_question_of_the_persons_is_answered_beside_the_prompt(desk: Desk) -> None:
    """As a reference is: the prompt stays as typed, and goes on to the model with what the session is, and the answer."""
    choose(desk, KEY)
    desk.model.says_aside("A quince [3].", "Because of bees [0].")
    with desk.talk() as talk:
        talk.prompt("@@plum-tree-care: what should be planted?")
        talk.prompt("@@plum-tree-care: why?")
    first, told, second, again = user_texts(desk)
    assert (first, second) == ("@@plum-tree-care: what should be planted?", "@@plum-tree-care: why?")
    assert told.startswith('@@plum-tree-care is the past session "Plum tree care"\n')
    assert f"The user's question was put to the session @@plum-tree-care. {KEY} answers, from 4 messages" in told
    assert "\n> A quince [3].\nIt rests on [3]. Read them: read_session" in told
    assert again.startswith(
        "The user's question was put to the session @@plum-tree-care."
    )  # what it is was told before
    assert "\n> Because of bees [0].\n" in again
    assert [prompt.rpartition("The question:\n")[2] for prompt in asides(desk)] == [
        "what should be planted?\n",
        "why?\n",
    ]
    desk.daemon.sync()
    assert desk.daemon.found("bees") == []


def test_a_question_that_nobody_answers_is_told_and_the_prompt_goes_on(desk: Desk) -> None:
    choose(desk, KEY)
    desk.model.says_aside(Fails(500))
    ran = desk.ask(" @@plum-tree-care: what should be planted?")
    assert f"@@plum-tree-care: {KEY} did not answer: " in ran.err
    prompt, told = user_texts(desk)
    assert prompt.strip() == "@@plum-tree-care: what should be planted?"
    assert "The last answer:\n> Plant a quince beside it." in told
    assert "was put to" not in told


def test_a_name_that_nobody_has_asks_nobody(desk: Desk) -> None:
    ran = desk.ask(" @@rhubarb: what should be planted?")
    assert "@@rhubarb: no session is called" in ran.err
    assert len(desk.model.requests) == 1


@pytest.mark.fault(104, 105)
def test_nothing_hostile_of_question_or_answer_passes_for_ours(desk: Desk) -> None:
    """What a session, and a model that has read it, say."""
    choose(desk, KEY)
    hostile = PiSession(id=f"7e57ab1e{canaries.IN_IDS}", cwd=f"/work{canaries.IN_IDS}").user(canaries.IN_TEXTS)
    desk.daemon.write("--garden--/7.jsonl", hostile.name(canaries.IN_TEXTS).bytes())
    desk.daemon.sync()
    desk.model.says_aside(canaries.IN_TEXTS, canaries.IN_TEXTS)
    desk.model.says(Use("query_session", {"session": "7e57ab1e", "question": "why?"}))
    ran = desk.ask("see @@7e57ab1e, please", mode="print")  # which prints what the tool gave
    desk.ask(" @@7e57ab1e: why?")
    told = user_texts(desk)[1]
    assert len(asides(desk)) == 2
    assert f"> {canaries.WORD}" in told
    for text in (told, ran.out):
        assert clean_text(text) == text
        assert not [line for line in canaries.words_of(text) if "ignore all" in line], text
    for prompt in asides(desk):
        assert clean_text(prompt) == prompt
        before, _, material = prompt.partition("\n<session>\n")
        assert canaries.WORD not in before
        assert material.count("</session>") == 1
        assert "\n> [9] user\n" in material  # no message's number
