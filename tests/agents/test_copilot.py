"""What Copilot CLI does in a terminal only, and what it writes of a helper."""

import pytest

from tests.support.agents import Agent, Copilot
from tests.support.chat import Use
from tests.support.daemon import eventually
from tests.support.stage import Stage
from tests.support.terminal import Terminal

only_copilot = pytest.mark.parametrize("agent", [Copilot], indirect=True, ids=["copilot"])
SIZED = ("sh", "-c", 'stty cols 120 rows 40; exec "$@"', "sh")  # without a size it ends at once


@only_copilot
def test_a_fork_and_a_command_of_the_persons(stage: Stage, agent: Agent) -> None:
    """`/fork` copies all events; what is said then is the fork's."""
    with stage.run(agent.asks("Why does the quince not bear?")):
        session = stage.finds("quince")["sessionId"]
        stage.model.says("It wants a second tree.")
    program, *switches = agent.asks("")[:2]
    environ = {**stage.surroundings(), "TERM": "xterm-256color"}
    with Terminal([*SIZED, program, *switches, "--resume", session], environ, stage.work) as terminal:
        terminal.wait_for("Do you trust the files")
        terminal.type("\r")
        terminal.wait_for("It wants a second tree")
        enter(terminal, "!printf 'med%s\\n' lar; exit $((1+2)) # nonsense")
        terminal.wait_for("medlar")
        assert stage.finds("medlar", status="error")["sessionId"] == session
        *_, command = stage.messages(session)
        assert (command["role"], command["toolName"]) == ("user", "local_shell")
        enter(terminal, "/fork Other orchards")
        terminal.wait_for("Forked from")
        (fork,) = eventually(lambda: [one for one in stage.daemon.sessions() if one["sessionId"] != session])
        enter(terminal, "What about the loquat")
        assert stage.finds("loquat")["sessionId"] == fork["sessionId"]
        stage.model.says("That one bears alone.")
        eventually(lambda: stage.daemon.found("bears alone"))
    meta = stage.daemon.call("get_session_meta", sessionId=fork["sessionId"])
    assert (meta["parentSessionId"], meta["name"]) == (session, "Other orchards")
    assert [hit["sessionId"] for hit in stage.daemon.call("search", query="quince")["results"]] == [session]
    stage.daemon.check_index()


@only_copilot
def test_a_helper_is_in_its_session_and_its_task_no_prompt(stage: Stage, agent: Agent) -> None:
    """What it is asked, does and answers is found there; a compaction comes after it, as a summary."""
    with stage.run(agent.asks("Ask somebody about the quince")):
        session = stage.finds("quince")["sessionId"]
        asked = {
            "name": "ibis",
            "agent_type": "task",
            "description": "Ask",
            "prompt": "Look for the medlar",
            "mode": "sync",
        }
        stage.model.says(Use("task", asked))
        assert stage.finds("medlar")["sessionId"] == session
        stage.model.says(agent.shell("printf 'bul%s\\n' lace"))
        assert stage.finds("bullace")["sessionId"] == session
        stage.model.says("The helper saw it.", "It was seen.")
    said = [(message["role"], message["text"]) for message in stage.messages(session) if message["kind"] == "message"]
    assert said == [
        ("user", "Ask somebody about the quince"),
        ("user", "Look for the medlar"),
        ("assistant", "The helper saw it."),
        ("assistant", "It was seen."),
    ]
    assert stage.daemon.call("get_session_meta", sessionId=session)["name"] == "Ask somebody about the quince"


def enter(terminal: Terminal, text: str) -> None:
    """Type a line that ends in a word which is not shown yet, and send it once it stands there."""
    terminal.shown = ""
    terminal.type(text)
    terminal.wait_for(text.split()[-1])
    terminal.type("\r")
