"""Aider at work: it calls no tools, so what it does stands in its answers, and in what it says of them."""

import pytest

from tests.support.agents import Agent, Aider
from tests.support.chat import MODEL, TITLE
from tests.support.daemon import eventually
from tests.support.sessions import PiSession
from tests.support.stage import Stage

only_aider = pytest.mark.parametrize("agent", [Aider], indirect=True, ids=["aider"])


def edit(word: str, before: str = "") -> str:
    """An answer that writes a word into a file."""
    searched = f"{before}\n" if before else ""
    return f"I write the {word}.\n\nnotes.txt\n```\n<<<<<<< SEARCH\n{searched}=======\n{word}\n>>>>>>> REPLACE\n```"


@only_aider
def test_each_word_is_found_while_aider_runs(stage: Stage, agent: Agent) -> None:
    """In a project that another agent has worked in; then a command, an edit that does not fit, a test that fails, and a restart."""
    PiSession(cwd=str(stage.work)).user("a plum").write(stage.daemon.home / ".pi/agent/sessions/--garden--/a.jsonl")
    stage.daemon.sync()
    with stage.run(agent.asks("Why does the quince not bear?")) as run:
        # The project's first history: it is looked for with each sweep.
        eventually(lambda: stage.daemon.sync() and stage.daemon.found("quince"))
        first = stage.finds("quince")["sessionId"]
        assert run.is_running
        stage.model.says(edit("medlar"))
        assert stage.finds("medlar", role="assistant")["sessionId"] == first
    assert stage.finds(TITLE, tool="commit")["sessionId"] == first
    with stage.run(agent.asks("/run echo rowan; exit 3")):
        second = stage.finds("rowan")["sessionId"]
    failing = [*agent.resumes(second, "Put the sorb there"), "--auto-test", "--test-cmd", "exit 3", "notes.txt"]
    with stage.run(failing):
        third = stage.finds("sorb")["sessionId"]
        stage.model.says(edit("sorb", before="none of it"))
        stage.model.says(edit("cornelian", before="medlar"))
        stage.model.says("I leave the loquat as it is.")
        assert stage.finds("loquat")["sessionId"] == third
    assert len({first, second, third}) == 3
    said = [(message["role"], message["toolName"], message["isError"]) for message in stage.messages(first)]
    assert said == [
        ("user", None, None),
        ("assistant", None, None),
        ("assistant", "edit", False),
        ("assistant", "commit", False),
    ]
    assert [(one["role"], one["toolName"]) for one in stage.messages(second)] == [("user", "run")]
    calls = [(one["toolName"], one["isError"]) for one in stage.messages(third) if one["toolName"]]
    assert calls == [("edit", True), ("edit", False), ("commit", False), ("test", True)]
    meta = stage.daemon.call("get_session_meta", sessionId=first)
    assert (meta["cwd"], meta["name"]) == (str(stage.work), "Why does the quince not bear?")
    assert meta["resume"]["command"][3:] == ["--restore-chat-history"]
    texts = [message["text"] for session in (first, second, third) for message in stage.messages(session)]
    assert not any(MODEL in text or "--yes-always" in text for text in texts)  # what it was started with is not kept
    stage.daemon.check_index()
    assert stage.daemon.call("status")["counts"]["badLines"] == 0
