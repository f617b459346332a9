"""A record has the same key in each file that holds a copy of it, and no other record has it."""

import json
from pathlib import PurePath

import pytest

from sesamed.model import Message, ToolCall
from sesamed.sources.codex import Codex
from tests.support.codex import CodexSession

CODEX = Codex()


def keys(session: CodexSession) -> list[int]:
    """The keys of the records, in order."""
    state, _ = CODEX.begin(PurePath(session.file_name))
    found: list[int] = []
    for line in session.lines():
        state, operations = CODEX.step(state, line)
        found += [operation.key for operation in operations if isinstance(operation, Message | ToolCall)]
    return found


def talk(session: CodexSession, *, turns: bool = True) -> CodexSession:
    """Some of everything that can be copied; the first builds had no ids of turns."""
    for prompt in ("why?", "go on", "go on"):
        if turns:
            session.turn()
        session.user(prompt).assistant("I look.", "commentary").tool("shell", {"command": ["ls"]}, "x")
        session.call("shell", {"command": ["ls"]}, "call_0").output("x", "call_0")
        session.assistant("I look.", "commentary").assistant("Because.")
    return session.compacted("sum")


@pytest.mark.parametrize("turns", [True, False])
class TestForks:
    """Copies under new times."""

    def test_a_fork_has_the_keys_of_its_parent(self, turns: bool) -> None:
        """And its own after them."""
        parent = talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child").user("and then?")
        assert keys(child)[:-1] == keys(parent)
        assert keys(child)[-1] not in keys(parent)

    def test_a_fork_of_a_fork_too(self, turns: bool) -> None:
        """It has the metas of all its ancestors."""
        parent = talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child").user("and then?")
        assert keys(child.fork(id="grandchild")) == keys(child)

    def test_a_fork_in_the_middle_has_the_keys_of_what_it_copied(self, turns: bool) -> None:
        """From where it parts, even equal words are its own."""
        parent = talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child", at=6 + turns).user("other").assistant("Because.")
        assert keys(child)[:3] == keys(parent)[:3]
        assert not set(keys(child)[3:]) & set(keys(parent))

    def test_a_subagents_part_of_the_history_has_its_parents_keys(self, turns: bool) -> None:
        """Calls and other answers are left out of it."""
        parent = talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child", subagent=True)
        assert len(keys(child)) == 7
        assert set(keys(child)) < set(keys(parent))

    def test_no_two_records_of_a_session_share_a_key(self, turns: bool) -> None:
        """Not even equal prompts, equal answers, and calls of a server that counts from 0 in each turn."""
        found = keys(talk(CodexSession(), turns=turns))
        assert len(found) == len(set(found)) == 19

    def test_two_sessions_that_say_the_same_share_nothing(self, turns: bool) -> None:
        """They only look alike."""
        assert not set(keys(talk(CodexSession(id="a"), turns=turns))) & set(
            keys(talk(CodexSession(id="b"), turns=turns))
        )


def test_a_subagent_with_the_last_turns_only_has_their_keys() -> None:
    """A turn's id stands for itself, whatever came before."""
    parent = CodexSession(id="parent").turn().user("a").assistant("b")
    first = len(parent.lines())
    parent.turn().user("a").assistant("b")
    child = CodexSession(id="child", parent_thread_id="parent")
    for line in parent.lines()[first:]:
        child.raw(line)
    assert keys(child) == keys(parent)[2:]


def test_a_rewritten_line_keeps_its_key() -> None:
    """Neither times nor ordinals count, nor which of item and event comes first."""
    one = CodexSession().user("why?", "item first").assistant("a")
    other = CodexSession().user("why?", "event first").assistant("a")
    changed = CodexSession()
    for line in other.lines()[1:]:
        changed.raw(json.dumps(json.loads(line) | {"timestamp": "2027-01-01T00:00:00.000Z", "ordinal": 5}).encode())
    assert keys(one) == keys(changed)


def test_files_without_a_meta_share_nothing() -> None:
    """Their names tell them apart."""
    line = CodexSession().user("why?", "event").lines()[1]
    found = [CODEX.step(CODEX.begin(PurePath(name))[0], line)[1][0] for name in ("a.jsonl", "b.jsonl")]
    assert isinstance(found[0], Message)
    assert isinstance(found[1], Message)
    assert found[0].key != found[1].key


def test_keys_fit_sqlites_integers() -> None:
    """63 bits."""
    assert all(0 <= key < 1 << 63 for key in keys(talk(CodexSession())))
