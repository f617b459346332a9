"""Session memory in the real pi: a model that the person chose writes what a session is."""

import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from sesamed.model import PROMPT_MARKER
from sesamed.sanitize import clean_text
from tests.pi.conftest import SetDesk
from tests.support import canaries
from tests.support.chat import ASIDE, ASIDE_USD, MODEL, PROVIDER, Fails, Hangs, Meanwhile, Model, Use, plain
from tests.support.desk import Desk, Talk
from tests.support.sessions import PiSession, iso

KEY = f"{PROVIDER}/{ASIDE}"
ENTRY: dict[str, Any] = {
    "name": "Why a plum tree stays bare",
    "description": "About a plum tree.",
    "summary": "It wants a second tree nearby.",
    "tags": ["garden"],
    "recallWords": ["pollination partner", "no harvest"],
}
GOOD = f"Here it is:\n```json\n{json.dumps(ENTRY)}\n```"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
FIELDS = [
    "sessionId", "sessionFile", "name", "description", "summary", "tags", "cwd", "createdAt", "updatedAt", "model", "lastIndexedLeafId",
]  # fmt: skip


def choose(desk: Desk, **settings: Any) -> Path:
    """The person chooses a model; each prompt is enough, unless the test says otherwise."""
    file = desk.agent / "session-index.config.json"
    file.write_text(json.dumps({"modelKeys": [KEY], "minNewUserMessages": 1, **settings}))
    return file


def status(talk: Talk, beginning: str) -> str:
    """What the status line says, once it begins so."""
    while True:
        asked = talk.until("extension_ui_request", method="setStatus", statusKey="session-index")
        if (said := asked.get("statusText")) is not None and said.startswith(beginning):
            return str(said)


def attempts(desk: Desk, session: str) -> list[dict[str, Any]]:
    """What the session's file says about being indexed."""
    (file,) = desk.daemon.root.rglob(f"*{session}.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line["data"] for line in lines if line.get("customType") == "session-index:index"]


def meta_file(desk: Desk, session: str) -> Path:
    return desk.agent / "sessions-meta" / f"{session}.meta.json"


def spent(desk: Desk) -> list[float]:
    """Dollars that were put down."""
    (file,) = desk.agent.glob("session-index.spent-*.jsonl")
    return [json.loads(line)["usd"] for line in file.read_text().splitlines() if line]


def own_id(talk: Talk) -> str:
    return str(talk.get("get_state")["sessionId"])


def test_right_at_once(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk(memory={"languages": ["English", "German"]})
    choose(desk, notificationAutoClearMs=10)
    model.says("It wants a second tree nearby.")
    model.says_aside(GOOD)
    with desk.talk() as talk:
        session = own_id(talk)
        talk.prompt(f"why does the plum tree not bear fruit? the token is {TOKEN}")
        assert status(talk, "session indexed") == "session indexed ($0.0125)"
        cleared = talk.until("extension_ui_request", method="setStatus", statusKey="session-index")
        assert cleared.get("statusText") is None
    (asked,) = model.asides
    (prompt,) = (plain(message) for message in asked["messages"] if message["role"] == "user")
    assert prompt.startswith(PROMPT_MARKER)
    assert "about 4 more in each other language in which the person will ask, whatever" in prompt
    assert " is in: English, German. No filler" in prompt
    assert (
        "User: why does the plum tree not bear fruit? the token is [masked:githubtoken]\n\nAssistant: It wants"
        in prompt
    )
    assert not asked.get("tools")
    stored = desk.daemon.call("get_session_meta", sessionId=session)
    assert {name: stored[name] for name in ("name", "summary", "description", "tags", "recallWords")} == ENTRY
    assert (stored["generated"]["model"], stored["generated"]["costUsd"]) == (KEY, pytest.approx(ASIDE_USD))
    assert stored["generated"]["upTo"] == desk.daemon.call("list_messages", sessionId=session)["total"] - 1
    assert desk.daemon.found("pollination") == [session]
    document = json.loads(meta_file(desk, session).read_text())
    assert list(document) == FIELDS
    assert {name: document[name] for name in ENTRY if name != "recallWords"} == {
        name: value for name, value in ENTRY.items() if name != "recallWords"
    }
    assert (document["sessionId"], document["model"], document["cwd"]) == (session, KEY, str(desk.work))
    assert oct(meta_file(desk, session).stat().st_mode)[-3:] == "600"
    (attempt,) = attempts(desk, session)
    assert (attempt["success"], attempt["sessionId"], attempt["model"]) == (True, session, KEY)
    assert attempt["usage"]["cost"]["total"] == pytest.approx(ASIDE_USD)
    assert "error" not in attempt


@pytest.mark.fault(110)
def test_malformed_twice_then_good(set_desk: SetDesk, model: Model) -> None:
    """It is asked again with its answer and what is wrong with it, and all of it is paid for."""
    desk = set_desk()
    choose(desk)
    model.says_aside("I would rather not.", json.dumps({**ENTRY, "tags": "garden"}), GOOD)
    with desk.talk() as talk:
        session = own_id(talk)
        talk.prompt("why?")
        status(talk, "indexing … (retry 2/2)")
        assert status(talk, "session indexed") == "session indexed ($0.0375)"
    prompts = [plain(request["messages"][-1]) for request in model.asides]
    assert [prompt.startswith(prompts[0]) for prompt in prompts] == [True] * 3
    assert "I would rather not.\n</answer>\nIt cannot be used:\n- there is no JSON object in it\n" in prompts[1]
    assert '- "tags" must be a list of texts\n' in prompts[2]
    assert desk.daemon.call("get_session_meta", sessionId=session)["generated"]["costUsd"] == pytest.approx(
        3 * ASIDE_USD
    )
    (attempt,) = attempts(desk, session)
    assert attempt["usage"]["input"] == 30_000


@pytest.mark.fault(110)
def test_malformed_three_times(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk)
    with desk.talk() as talk:
        session = own_id(talk)
        talk.prompt("why?")
        assert status(talk, "index failed").startswith(
            'index failed: no usable answer in 3 tries: "name" must be a text'
        )
    assert len(model.asides) == 3
    assert desk.daemon.call("get_session_meta", sessionId=session)["generated"] is None
    assert not meta_file(desk, session).exists()
    (attempt,) = attempts(desk, session)
    assert (attempt["success"], attempt["usage"]["input"]) == (False, 30_000)
    assert attempt["error"].startswith("no usable answer")


@pytest.mark.fault(111)
def test_an_error_of_the_provider_is_not_tried_again(set_desk: SetDesk, model: Model) -> None:
    """The next run of the agent has another turn."""
    desk = set_desk()
    choose(desk)
    model.says_aside(Fails(500), GOOD)
    with desk.talk() as talk:
        session = own_id(talk)
        talk.prompt("why?")
        assert "500" in status(talk, "index failed")
        assert len(model.asides) == 1
        assert desk.daemon.call("get_session_meta", sessionId=session)["generated"] is None
        talk.prompt("and now?")
        status(talk, "session indexed")
    assert [attempt["success"] for attempt in attempts(desk, session)] == [False, True]


def test_a_run_that_pi_tries_again_is_done_once(set_desk: SetDesk, model: Model) -> None:
    """pi's own retries of the conversation end a run of the agent several times."""
    desk = set_desk()
    choose(desk)
    model.says(Fails(500), "It wants a second tree.")
    model.says_aside(GOOD)
    with desk.talk() as talk:
        talk.get("prompt", message="why?")
        status(talk, "session indexed")
    assert len(model.asides) == 1
    assert "It wants a second tree." in plain(model.asides[0]["messages"][-1])


def test_enough_prompts_since_the_last_time_also_after_a_restart(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk, minNewUserMessages=3)
    model.says_aside(GOOD, GOOD)
    with desk.talk() as talk:
        session = own_id(talk)
        for number in range(1, 6):
            talk.prompt(f"prompt {number}")
            if number == 3:
                status(talk, "session indexed")
            assert len(model.asides) == int(number >= 3)
    first = json.loads(meta_file(desk, session).read_text())
    with desk.talk("--session", session) as talk:
        talk.prompt("prompt in another pi")
        status(talk, "session indexed")
    assert len(model.asides) == 2
    last = json.loads(meta_file(desk, session).read_text())
    assert last["createdAt"] == first["createdAt"] < last["updatedAt"]
    assert last["lastIndexedLeafId"] != first["lastIndexedLeafId"]


def by_another(desk: Desk, session: str, up_to: int) -> dict[str, Any]:
    """What another generator stores of a session."""
    generated = {"model": "another", "at": iso(int(time.time() * 1000)), "upTo": up_to, "costUsd": None}
    return dict(desk.daemon.call("set_session_meta", sessionId=session, summary="another's", generated=generated))


def test_what_another_one_has_had_remembered_is_not_due(set_desk: SetDesk, model: Model) -> None:
    """Only what was said since counts, wherever that is known."""
    desk = set_desk()
    choose(desk, minNewUserMessages=2)
    old = desk.session(1)
    talk_of(old, ("one", "1"), ("two", "2"), ("three", "3"))
    desk.keep(old)
    desk.daemon.sync()
    by_another(desk, old.id, 5)
    model.says_aside(GOOD)
    with desk.talk("--session", str(desk.daemon.root / "--garden--" / old.file_name)) as talk:
        for prompt in ("four", "five"):
            assert model.asides == []
            talk.prompt(prompt)
        status(talk, "session indexed")
    assert "User: five" in plain(model.asides[0]["messages"][-1])


def test_what_another_one_stores_meanwhile_stays(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk)
    with desk.talk() as talk:
        session = own_id(talk)
        model.says_aside(Meanwhile(lambda: by_another(desk, session, 0), GOOD))
        talk.prompt("why?")
        assert "there are others" in status(talk, "index failed")
    assert desk.daemon.call("get_session_meta", sessionId=session)["summary"] == "another's"
    assert not meta_file(desk, session).exists()
    (attempt,) = attempts(desk, session)
    assert (attempt["success"], attempt["usage"]["input"]) == (False, 10_000)


def test_without_a_daemon_no_model_is_asked(set_desk: SetDesk, model: Model) -> None:
    """It says what is secret and what is excluded."""
    desk = set_desk(running=False)
    choose(desk)
    desk.environ["SESAMECTL"] = "/nonexistent/sesamectl"
    with desk.talk() as talk:
        talk.prompt("why?")
        assert status(talk, "index failed").startswith("index failed: nothing listens at ")
    assert model.asides == []


def test_two_sessions_at_once(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk)
    model.says_aside(GOOD, GOOD)
    with desk.talk() as one, desk.talk() as other:
        ids = [own_id(one), own_id(other)]
        for talk in (one, other):
            talk.send("prompt", message="why?")
        for talk in (one, other):
            status(talk, "session indexed")
    assert sorted(desk.daemon.found("pollination")) == sorted(ids)
    assert [meta_file(desk, session).exists() for session in ids] == [True, True]


@pytest.mark.fault(109, 112)
@pytest.mark.parametrize("how", ["new_session", "switch_session", "SIGTERM", "SIGKILL"])
def test_whatever_ends_the_session_ends_the_call(set_desk: SetDesk, model: Model, how: str) -> None:
    desk = set_desk()
    choose(desk)
    hangs = Hangs()
    model.says_aside(hangs)
    talk = desk.talk()
    with talk:
        session = own_id(talk)
        talk.prompt("why?")
        assert hangs.begun.wait(60)
        if how == "switch_session":
            other = desk.session(1).user("where is the spade?").assistant("In the shed.")
            desk.keep(other)
            talk.get(how, sessionPath=str(desk.daemon.root / "--garden--" / other.file_name))
            assert hangs.hung_up.wait(60)
        elif how == "new_session":
            talk.get(how)
            assert hangs.hung_up.wait(60)
        else:
            talk.kill(how)
    assert hangs.hung_up.wait(60)
    desk.daemon.sync()
    assert desk.daemon.call("get_session_meta", sessionId=session)["generated"] is None
    assert not list(desk.agent.glob("sessions-meta/*"))
    assert attempts(desk, session) == []
    assert sum(spent(desk)) > 0.02  # what it has cost nobody knows
    model.says_aside(GOOD)
    with desk.talk("--session", session) as talk:
        talk.prompt("and now?")
        status(talk, "session indexed")
    assert desk.daemon.found("pollination") == [session]


@pytest.mark.fault(112)
def test_the_days_budget_is_everybodys(set_desk: SetDesk, model: Model) -> None:
    """What a call may cost (two cents here) has to be left; one that failed counts."""
    desk = set_desk()
    choose(desk, budgetCents=3.4)
    model.says_aside("no", GOOD, GOOD)
    with desk.talk() as talk:
        talk.prompt("why?")
        status(talk, "session indexed ($0.0250)")
    with desk.talk() as talk:
        session = own_id(talk)
        talk.prompt("why?")
        said = "today's budget of 3.4 cents (budgetCents) does not allow another call"
        assert status(talk, "index failed") == f"index failed: {said}"
        talk.send("prompt", message="/index-session")
        assert talk.until("extension_ui_request", method="notify", notifyType="error")["message"] == said
        talk.passed.clear()
        talk.prompt("and now?")
        talk.send("prompt", message="/index-session")
        talk.until("extension_ui_request", method="notify", notifyType="error")
        assert (
            len([message for message in talk.passed if said in str(message.get("statusText"))]) == 1
        )  # who asks is told
    assert len(model.asides) == 2
    assert attempts(desk, session) == []
    assert sum(spent(desk)) == pytest.approx(2 * ASIDE_USD)


@pytest.mark.fault(111)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"modelKeys": ["anthropic/claude-haiku-4-5", "fake/none"]},
            "pi has no key for anthropic/claude-haiku-4-5 (`/login`); pi knows no model fake/none",
        ),
        ({"modelKeys": "fake"}, "session-index.config.json: modelKeys: expected a list of models"),
    ],
)  # fmt: skip
def test_a_choice_that_cannot_be_is_told_once(
    set_desk: SetDesk, model: Model, settings: dict[str, Any], said: str
) -> None:
    """No key, no such model, not what was meant: one warning at the start, then nothing; an error for who asks."""
    desk = set_desk()
    desk.environ |= {"ANTHROPIC_API_KEY": "", "ANTHROPIC_OAUTH_TOKEN": ""}
    choose(desk, **settings)
    with desk.talk() as talk:
        warned = talk.until("extension_ui_request", method="notify", notifyType="warning")["message"]
        assert said in warned
        talk.passed.clear()
        talk.prompt("why?")
        talk.get("new_session")
        talk.prompt("why?")
        assert not [message for message in talk.passed if message.get("method") in ("notify", "setStatus")]
        talk.send("prompt", message="/index-session")
        assert said in talk.until("extension_ui_request", method="notify", notifyType="error")["message"]
    assert model.asides == []


def test_nothing_happens_until_a_model_is_chosen(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    with desk.talk() as talk:
        talk.prompt("why?")
        assert not [message for message in talk.passed if message.get("method") in ("notify", "setStatus")]
        talk.send("prompt", message="/index-session")
        said = talk.until("extension_ui_request", method="notify", notifyType="error")["message"]
    assert said.startswith("no model is chosen: put modelKeys into ")
    assert model.asides == []
    assert not [path for path in desk.agent.iterdir() if "index" in path.name or "meta" in path.name]


def test_a_model_that_is_chosen_no_longer_is_asked_no_longer(set_desk: SetDesk, model: Model) -> None:
    """By a pi that runs, and asks it again once it is chosen again."""
    desk = set_desk()
    file = choose(desk)
    chosen = file.read_text()
    model.says("one", "two", "three")
    model.says_aside(GOOD, GOOD)
    with desk.talk() as talk:
        talk.prompt("first")
        status(talk, "session indexed")
        file.write_text('{"modelKeys": []}')
        talk.prompt("second")
        talk.send("prompt", message="/index-session")
        assert "no model is chosen" in talk.until("extension_ui_request", method="notify")["message"]
        file.write_text(chosen)
        talk.prompt("third")
        status(talk, "session indexed")
    assert ["second" in json.dumps(asked) and "third" in json.dumps(asked) for asked in model.asides] == [False, True]


def test_whoever_asks_need_not_wait_for_enough_prompts(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk, minNewUserMessages=5, commandName="remember-this")
    model.says_aside(GOOD)
    with desk.talk() as talk:
        session = own_id(talk)
        talk.prompt("why?")
        assert model.asides == []
        talk.send("prompt", message="/remember-this")
        said = talk.until("extension_ui_request", method="notify", notifyType="info")["message"]
    assert said == 'Indexed as "Why a plum tree stays bare" ($0.0125)'
    assert desk.daemon.found("pollination") == [session]


@pytest.mark.parametrize("waits", [False, True])
def test_print_mode_waits_only_when_it_is_told_to(set_desk: SetDesk, model: Model, waits: bool) -> None:
    desk = set_desk()
    choose(desk, waitInPrintMode=waits)
    model.says_aside(GOOD)
    ran = desk.ask("why?", mode="print")
    assert (ran.out, ran.err) == ("Done.\n", "")
    desk.daemon.sync()
    (session,) = desk.daemon.sessions()
    assert len(model.asides) == int(waits)
    assert (session["name"] == ENTRY["name"]) is waits
    assert len(attempts(desk, session["sessionId"])) == int(waits)


def test_the_command_waits_until_nobody_is_at_work_and_is_done_once(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk, minNewUserMessages=5)
    os.mkfifo(desk.work / "fifo")
    model.says(Use("bash", {"command": "read line < fifo"}), "It is over.")
    hangs = Hangs()
    model.says_aside(hangs)
    with desk.talk() as talk:
        talk.get("prompt", message="wait for it")
        talk.until("tool_execution_start")
        talk.send("prompt", message="/index-session")
        assert model.asides == []
        (desk.work / "fifo").write_text("go\n")
        assert hangs.begun.wait(60)
        talk.send("prompt", message="/index-session")
        said = talk.until("extension_ui_request", method="notify", notifyType="error")["message"]
    assert said == "this session is being indexed already"
    assert hangs.hung_up.wait(60)
    (asked,) = model.asides
    assert "It is over." in plain(asked["messages"][-1])


@pytest.mark.fault(104, 105)
def test_nothing_that_a_model_writes_passes_for_ours(set_desk: SetDesk, model: Model) -> None:
    """It had read what others wrote."""
    desk = set_desk()
    choose(desk)
    hostile = {
        name: [canaries.IN_TEXTS] if isinstance(value, list) else canaries.IN_TEXTS for name, value in ENTRY.items()
    }
    model.says_aside(json.dumps(hostile))
    with desk.talk() as talk:
        session = own_id(talk)
        talk.prompt("why?")
        status(talk, "session indexed")
        model.says_aside(json.dumps(hostile))
        talk.send("prompt", message="/index-session")
        talk.until("extension_ui_request", method="notify", notifyType="info")
        shown = "\n".join(str(message.get(field)) for message in talk.passed for field in ("message", "statusText"))
    document = json.loads(meta_file(desk, session).read_text())
    for text in (shown, *(value for value in document.values() if isinstance(value, str)), *document["tags"]):
        assert clean_text(text) == text
    assert canaries.WORD in shown
    assert canaries.WORD in document["summary"]


def test_what_is_nobodys_own_session_is_left_alone(set_desk: SetDesk, model: Model) -> None:
    """Without a file; started by the shell of another pi, whose work it is a part of."""
    desk = set_desk()
    choose(desk, waitInPrintMode=True)
    desk.ask("why?", "--no-session")
    with desk.talk("--no-session") as talk:
        talk.send("prompt", message="/index-session")
        said = talk.until("extension_ui_request", method="notify", notifyType="error")["message"]
    assert said == "pi keeps no file of this session, so there is nothing to index"
    assert model.asides == []
    model.says(
        Use("bash", {"command": shlex.join(desk.command("-p", "the child's"))}), "The child is done.", "All done."
    )
    model.says_aside(GOOD)
    desk.ask("start a child")
    desk.daemon.sync()
    assert len(desk.daemon.sessions()) == 2
    (asked,) = model.asides
    assert "start a child" in plain(asked["messages"][-1])


def test_excluded_sessions_are_not_sent(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk)
    (desk.work / ".sesameignore").touch()
    with desk.talk() as talk:
        talk.prompt("why?")
        talk.send("prompt", message="/index-session")
        assert talk.until("extension_ui_request", method="notify", notifyType="error")["message"]
        assert not [message for message in talk.passed if "indexing" in str(message.get("statusText"))]
    assert model.asides == []


def test_what_was_excluded_a_moment_ago_is_not_sent(set_desk: SetDesk, model: Model) -> None:
    """Before any sweep, and though nothing was said since."""
    desk = set_desk()
    choose(desk, minNewUserMessages=2)
    with desk.talk() as talk:
        talk.prompt("why?")
        desk.daemon.sync()
        (desk.work / ".sesameignore").touch()
        talk.send("prompt", message="/index-session")
        talk.until("extension_ui_request", method="notify")
    assert model.asides == []


def status_cleared(talk: Talk) -> list[str | None]:
    """What the status line says until it says nothing."""
    said: list[str | None] = []
    while not said or said[-1] is not None:
        said.append(talk.until("extension_ui_request", method="setStatus", statusKey="session-index").get("statusText"))
    return said


THEIRS = {
    "command": 'pi.registerCommand("index-session", { description: "theirs", handler: async () => {} })',
    "entries": 'pi.on("agent_end", () => pi.appendEntry("session-index:index", { success: true }))',
    "later": 'pi.on("agent_end", () => void setTimeout(() => pi.appendEntry("session-index:index", { success: true }), 0))',
}


@pytest.mark.fault(114)
@pytest.mark.parametrize("what", THEIRS)
def test_where_session_index_is_loaded_nothing_is_generated(set_desk: SetDesk, model: Model, what: str) -> None:
    desk = set_desk()
    choose(desk)
    extension = desk.daemon.directory / "theirs.ts"
    extension.write_text(f"export default (pi) => {{ {THEIRS[what]} }}\n")
    with desk.talk("-e", str(extension)) as talk:
        for _ in range(2):
            talk.prompt("why?")
        talk.get("get_state")
    assert model.asides == []
    assert not meta_file(desk, "x").parent.exists()


COST = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": COST}


def talk_of(session: PiSession, *said: tuple[str, str]) -> None:
    """Prompts and answers as pi wants to go on from them."""
    for prompt, answer in said:
        told = {"provider": PROVIDER, "model": MODEL, "api": "openai-completions", "usage": USAGE, "stopReason": "stop"}
        session.user(prompt).message("assistant", content=[{"type": "text", "text": answer}], **told)


def test_what_a_compaction_left_out_is_not_sent(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk)
    old = desk.session(1)
    talk_of(old, ("about medlars", "They rot well."), ("kept prompt", "kept answer"))
    kept = json.loads(old.lines()[3])["id"]
    old.entry("compaction", summary="Medlars were discussed.", firstKeptEntryId=kept, tokensBefore=9)
    talk_of(old, ("after it", "so it is"))
    desk.keep(old)
    model.says_aside(GOOD)
    with desk.talk("--session", str(desk.daemon.root / "--garden--" / old.file_name)) as talk:
        talk.prompt("the newest")
        status(talk, "session indexed")
    sent = plain(model.asides[0]["messages"][-1])
    said = [
        "Summary of what was before: Medlars were discussed.", "User: kept prompt", "Assistant: kept answer", "User: after it",
        "Assistant: so it is", "User: the newest", "Assistant: Done.",
    ]  # fmt: skip
    assert "\n\n".join(["", *said]) in sent
    assert "They rot well" not in sent


def test_a_fork_is_sent_with_what_it_inherits(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk)
    old = desk.session(1)
    talk_of(old, ("about medlars", "They rot well."))
    place = desk.daemon.root / "--garden--"
    fork = old.fork(id=desk.session(2).id, directory=str(place))
    desk.keep(old, fork)
    model.says_aside(GOOD)
    with desk.talk("--session", str(place / fork.file_name)) as talk:
        talk.prompt("and quinces?")
        status(talk, "session indexed")
    sent = plain(model.asides[0]["messages"][-1])
    assert "User: about medlars\n\nAssistant: They rot well.\n\nUser: and quinces?" in sent
    document = json.loads(meta_file(desk, fork.id).read_text())
    assert list(document) == [*FIELDS[:2], "parentSessionFile", *FIELDS[2:]]
    assert document["parentSessionFile"] == str(place / old.file_name)


@pytest.mark.fault(113)
def test_a_corrupt_document_is_told_and_written_anew(set_desk: SetDesk, model: Model) -> None:
    desk = set_desk()
    choose(desk)
    model.says_aside(GOOD)
    with desk.talk() as talk:
        session = own_id(talk)
        file = meta_file(desk, session)
        file.parent.mkdir()
        file.write_text('{"sessionId":')
        talk.send("prompt", message="why?")
        warned = talk.until("extension_ui_request", method="notify", notifyType="warning")["message"]
        status(talk, "session indexed")
    assert warned.startswith(f"{file} cannot be what it ought to be")
    assert json.loads(file.read_text())["name"] == ENTRY["name"]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_older_sessions_that_are_due_are_done_some_a_day(set_desk: SetDesk, model: Model) -> None:
    """By whichever pi is started; the newest first."""
    desk = set_desk()
    choose(desk, backfill=2, minNewUserMessages=5)
    for number in (1, 2, 3):
        desk.keep(desk.session(number).user(f"plum {number}").assistant("It wants a second tree nearby."))
    desk.daemon.sync()
    model.says_aside(GOOD, GOOD, GOOD)
    with desk.talk() as talk:
        assert status(talk, "older") == "older sessions indexed: 2 ($0.0250)"
    with desk.talk() as talk:
        status_cleared(talk)
    assert sorted(desk.daemon.found("pollination")) == [desk.session(2).id, desk.session(3).id]
    assert len(model.asides) == 2
    document = json.loads(meta_file(desk, desk.session(3).id).read_text())
    assert list(document) == FIELDS
    assert desk.daemon.call("list_sessions", needsMemory=True)["total"] == 1
