"""Real agents at work: whatever is said and done is found while they still run, in the right session, once.

Words that only a command's output has are put together by the shell, so that finding the call is not finding them.
"""

from tests.support.stage import BRANCH, Stage


def test_each_word_is_found_while_the_agent_runs(stage: Stage) -> None:
    """A prompt, a call and its output, a call that fails, an answer; then the session goes on, and another one begins with its copy."""
    session = talk(stage)
    check_heading(stage, session)
    check_calls(stage, session)
    resume(stage, session)
    fork(stage, session)
    stage.daemon.check_index()
    assert stage.daemon.call("status")["counts"]["badLines"] == 0


def talk(stage: Stage) -> str:
    """A session, looked at while it is made; gives its id."""
    with stage.run(stage.agent.asks("Why does the quince not bear?")) as run:
        look = stage.agent.shell("printf 'med%s\\n' lar")
        if not stage.agent.tells_prompt:
            stage.model.says(look)
        session: str = stage.finds("quince")["sessionId"]
        if stage.agent.tells_prompt:
            stage.model.says(look)
        assert stage.finds("medlar")["sessionId"] == session
        stage.model.says(stage.agent.shell("printf 'bul%s\\n' lace; exit 3"))
        assert stage.finds("bullace")["sessionId"] == session
        assert run.is_running
        stage.model.says("It wants a second tree, a cornelian.")
        assert stage.finds("cornelian")["sessionId"] == session
    return session


def check_heading(stage: Stage, session: str) -> None:
    """What a list says of it."""
    meta = stage.daemon.call("get_session_meta", sessionId=session)
    assert (meta["source"], meta["cwd"], meta["parentSessionId"]) == (stage.agent.name, str(stage.work), None)
    assert meta["gitBranch"] == (BRANCH if stage.agent.tells_branch else None)
    assert meta["name"]


def check_calls(stage: Stage, session: str) -> None:
    """Who said what, in order, and how the calls went."""
    messages = stage.messages(session)
    assert [(message["role"], message["isError"]) for message in messages] == [
        ("user", None),
        ("assistant", False),
        ("assistant", True),
        ("assistant", None),
    ]
    assert [message["toolName"] for message in messages] == [None, *[stage.agent.shell_tool] * 2, None]
    assert all(message["timestamp"] for message in messages)


def resume(stage: Stage, session: str) -> None:
    """It is the same session, with another prompt; and the agent is told which one as our own command tells it."""
    words = stage.agent.resumes(session, "And the rowan?")
    told = stage.daemon.call("get_session_meta", sessionId=session)["resume"]
    assert (told is not None) is stage.agent.tells_resume
    if not words:
        return
    assert told is None or set(told["command"][1:]) <= {*words, *stage.agent.in_terminal, str(stage.work)}
    with stage.run(words):
        assert stage.finds("rowan")["sessionId"] == session
        stage.model.says("The same, by the sorb.")
        assert stage.finds("sorb")["sessionId"] == session
    assert len(stage.messages(session)) == 6


def fork(stage: Stage, session: str) -> None:
    """It begins with a copy, which is not found twice."""
    words = stage.agent.forks(session, "What about the loquat?")
    if not words:
        return
    with stage.run(words):
        fork = stage.finds("loquat")["sessionId"]
        assert fork != session
        stage.model.says("That one bears alone, like the jujube.")
        assert stage.finds("jujube")["sessionId"] == fork
    meta = stage.daemon.call("get_session_meta", sessionId=fork)
    assert meta["parentSessionId"] == (session if stage.agent.tells_parent else None)
    assert len(stage.messages(fork)) == 8
    assert len(stage.daemon.found("medlar")) == 1
