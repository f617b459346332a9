"""A record has the same key in each file that holds a copy of it, and no other record has it."""

import json
from pathlib import PurePath

from sesamed.model import Message, ToolCall
from sesamed.sources.claude import Claude
from tests.support.claude import ClaudeSession, call_id, tool_use
from tests.support.sessions import Call, encoded

CLAUDE = Claude()
CHILD = "c41d0000-0000-4000-8000-000000000002"


def keys(session: ClaudeSession) -> list[int]:
    """The keys of the records, in order."""
    state, _ = CLAUDE.begin(PurePath(session.file_name))
    found: list[int] = []
    for line in session.lines():
        state, operations = CLAUDE.step(state, line)
        found += [operation.key for operation in operations if isinstance(operation, Message | ToolCall)]
    return found


def talk(session: ClaudeSession) -> ClaudeSession:
    """Some of everything that can be copied."""
    return (
        session.user("why?")
        .assistant("I look.", id="msg_01aaaaaaaaaaaaaaaaaaaa")
        .call(Call("Bash", {"command": "ls"}, "toolu_01aaaaaaaaaaaaaaaaaaaa"), id="msg_01aaaaaaaaaaaaaaaaaaaa")
        .result(Call("Bash", id="toolu_01aaaaaaaaaaaaaaaaaaaa"), "x")
        .result(Call("Bash", id="toolu_01lost"), "x")
        .user("<bash-input>make</bash-input>")
        .user("<bash-stdout>done</bash-stdout><bash-stderr></bash-stderr>")
        .queued("hurry")
        .command("/review", "all")
        .compaction("It was looked at.")
        .assistant("Because.")
    )


def test_copies_in_a_fork_have_the_keys_of_their_originals() -> None:
    """`--fork-session` copies the lines with their uuids and times, and the session's id is the fork's."""
    parent = talk(ClaudeSession())
    child = parent.copied(CHILD, requestSessionId=parent.id).user("and then?")
    assert keys(child)[:-1] == keys(parent)
    assert keys(child)[-1] not in keys(parent)


def test_copies_in_a_resumed_session_have_the_keys_of_their_originals() -> None:
    """1.0.x copied a prompt's text as a block."""
    parent = talk(ClaudeSession(version="1.0.98"))
    assert keys(parent.resumed(CHILD)) == keys(parent)


def test_copies_in_a_fork_by_the_sdk_have_the_keys_of_their_originals() -> None:
    """It gives each line another uuid."""
    parent = talk(ClaudeSession())
    assert keys(parent.sdk_fork(CHILD)) == keys(parent)


def test_answers_and_calls_have_the_keys_of_their_originals_when_stamped_anew() -> None:
    """As 0.2.x did in resumed sessions; only the ids of the API stay."""
    call = Call("Bash", {"command": "ls"})
    parent = ClaudeSession(version="0.2.126").response(
        [{"type": "text", "text": "I look."}, tool_use(call), {"type": "text", "text": "Done."}]
    )
    child = parent.copied(CHILD, uuid="new", timestamp="2026-04-01T00:00:00.000Z", costUSD=0)
    assert keys(child) == keys(parent)
    assert len(set(keys(parent))) == 3


def test_a_prompt_that_was_stamped_anew_is_another_one() -> None:
    """What 0.2.x's copies of prompts keep is the text alone, and a text alone may be anybody's."""
    parent = ClaudeSession(version="0.2.126").user("why?")
    assert keys(parent.copied(CHILD, uuid="new", timestamp="2026-04-01T00:00:00.000Z")) != keys(parent)


def test_no_two_records_of_a_session_share_a_key() -> None:
    """Not even two equal texts in two responses."""
    found = keys(talk(ClaudeSession()).assistant("Because."))
    assert len(found) == len(set(found)) == 10


def test_a_repeated_text_of_one_response_is_one_record() -> None:
    """Some versions wrote a response again as it grew, block by block."""
    session = ClaudeSession()
    for text in ("One.", "One.", "One. Two."):
        session.assistant(text, id="msg_01aaaaaaaaaaaaaaaaaaaa")
    assert len(keys(session)) == 3
    assert len(set(keys(session))) == 2


def test_equal_texts_under_a_gateways_short_id_are_told_apart_by_time() -> None:
    """`msg_1` is an id in many sessions."""
    session = ClaudeSession().assistant("Done.", id="msg_1").assistant("Done.", id="msg_1")
    assert len(set(keys(session))) == 2
    call = Call("Bash", {"command": "ls"}, "call_0")
    assert len(set(keys(ClaudeSession().call(call).call(call)))) == 2


def test_other_words_have_another_key() -> None:
    """Even under the same ids and times, as in a file that was edited by hand."""
    assert keys(ClaudeSession().user("one")) != keys(ClaudeSession().user("two"))
    assert keys(ClaudeSession().assistant("one")) != keys(ClaudeSession().assistant("two"))
    calls = [Call("Read", {"path": path}, "toolu_01aaaaaaaaaaaaaaaaaaaa") for path in "ab"]
    assert keys(ClaudeSession().call(calls[0])) != keys(ClaudeSession().call(calls[1]))


def test_the_same_words_at_another_time_have_another_key() -> None:
    """Times tell prompts apart."""
    assert len(set(keys(ClaudeSession().user("again").user("again")))) == 2


def test_keys_fit_sqlites_integers() -> None:
    """63 bits."""
    assert all(0 <= key < 1 << 63 for key in keys(talk(ClaudeSession())))


def test_the_builder_copies_what_it_says() -> None:
    """A copy has the session's new id, and no lines about the session."""
    child = ClaudeSession().title("a").user("why?").copied(CHILD)
    assert [json.loads(line)["sessionId"] for line in child.lines()] == [CHILD]
    assert encoded(call_id(Call("a", {}))).count("toolu_01") == 1
