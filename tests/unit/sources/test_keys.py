"""A record has the same key in each file that holds a copy of it, and no other record has it."""

import json
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec
import pytest

from sesamed.model import Message, ToolCall
from sesamed.sources import SOURCES
from tests.support.claude import ClaudeSession, call_id, tool_use
from tests.support.codex import CodexSession
from tests.support.sessions import Call, PiSession, encoded

CHILD = "c41d0000-0000-4000-8000-000000000002"  # as Claude names files
OLD = "2025-11-20T10:00:00.000Z"  # pi had no ids of entries then
Session = PiSession | ClaudeSession | CodexSession


class Agent(msgspec.Struct, frozen=True):
    """How an agent's sessions are made, copied and varied in the tests that hold for all of them."""

    make: Callable[..., Any]
    talk: Callable[[Any], Any]  # some of everything that can be copied
    records: int  # in a talk
    fork: Callable[[Any], Any]
    variants: tuple[Callable[[Any, str], Any], ...]  # the same line with other words


def keys(session: Session) -> list[int]:
    """The keys of the records, in order."""
    source = SOURCES[{PiSession: "pi", ClaudeSession: "claude", CodexSession: "codex"}[type(session)]]
    state, _ = source.begin(PurePath(session.file_name))
    found: list[int] = []
    for line in session.lines():
        state, operations = source.step(state, line)
        found += [operation.key for operation in operations if isinstance(operation, Message | ToolCall)]
    return found


def pi_talk(session: PiSession) -> PiSession:
    """In pi, some of everything that can be copied."""
    return (
        session.user("why?")
        .assistant("I look.", [Call("bash", {"command": "ls"}, "a"), Call("bash", {"command": "ls"}, "b")])
        .result(Call("bash", id="a"), "x")
        .result(Call("bash", id="b"), "x")
        .result(Call("bash", id="lost"), "x")
        .bash("make", "done")
        .message("hookMessage" if session.version < 3 else "custom", content="note")
        .compaction("It was looked at.")
        .assistant("Because.")
    )


def claude_talk(session: ClaudeSession) -> ClaudeSession:
    """The same in Claude Code."""
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


def codex_talk(session: CodexSession, *, turns: bool = True) -> CodexSession:
    """The same in Codex; the first builds had no ids of turns."""
    for prompt in ("why?", "go on", "go on"):
        if turns:
            session.turn()
        session.user(prompt).assistant("I look.", "commentary").tool("shell", {"command": ["ls"]}, "x")
        session.call("shell", {"command": ["ls"]}, "call_0").output("x", "call_0")
        session.assistant("I look.", "commentary").assistant("Because.")
    return session.compacted("sum")


AGENTS = {
    "pi": Agent(
        PiSession,
        pi_talk,
        9,
        lambda parent: parent.fork(id="child"),
        (
            lambda session, text: session.user(text),
            lambda session, text: session.bash("ls", text),
            lambda session, text: session.assistant(calls=[Call("ls", {"path": text}, "same")]),
        ),
    ),
    "claude": Agent(
        ClaudeSession,
        claude_talk,
        9,
        lambda parent: parent.copied(CHILD, requestSessionId=parent.id),
        (
            lambda session, text: session.user(text),
            lambda session, text: session.assistant(text),
            lambda session, text: session.call(Call("Read", {"path": text}, "toolu_01aaaaaaaaaaaaaaaaaaaa")),
        ),
    ),
    "codex": Agent(
        CodexSession,
        codex_talk,
        19,
        lambda parent: parent.fork(id="child"),
        (
            lambda session, text: session.user(text),
            lambda session, text: session.assistant(text),
            lambda session, text: session.call("ls", {"path": text}, "call_0"),
        ),
    ),
}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
class TestAll:
    """Whichever agent it is."""

    def test_copies_in_a_fork_have_the_keys_of_their_originals(self, agent: Agent) -> None:
        """What is said after them has others."""
        parent = agent.talk(agent.make())
        child = agent.fork(parent).user("and then?")
        assert keys(child)[:-1] == keys(parent)
        assert keys(child)[-1] not in keys(parent)

    def test_no_two_records_of_a_session_share_a_key(self, agent: Agent) -> None:
        """Not even two equal calls in one line, equal prompts, equal answers."""
        found = keys(agent.talk(agent.make()))
        assert len(found) == len(set(found)) == agent.records

    def test_other_words_have_another_key(self, agent: Agent) -> None:
        """Even under the same ids and times, as in a file that was edited by hand."""
        for vary in agent.variants:
            assert keys(vary(agent.make(), "one")) != keys(vary(agent.make(), "two"))

    def test_the_same_words_again_have_another_key(self, agent: Agent) -> None:
        """Ids, times or what was said before tell them apart."""
        assert len(set(keys(agent.make().user("again").user("again")))) == 2

    def test_two_sessions_that_say_the_same_share_nothing(self, agent: Agent) -> None:
        """They only look alike."""
        other = "2026-04-01T00:00:00.000Z"
        one, two = agent.make().user("again"), agent.make(id=CHILD, start=other).user("again")
        assert not set(keys(one)) & set(keys(two))

    def test_keys_fit_sqlites_integers(self, agent: Agent) -> None:
        """63 bits."""
        assert all(0 <= key < 1 << 63 for key in keys(agent.talk(agent.make())))


IDS = ("id", "parentId", "uuid", "parentUuid", "timestamp")


class TestWithoutIds:
    """Converters and forks of the agents leave ids and times out."""

    @pytest.mark.parametrize("agent", [AGENTS["pi"], AGENTS["claude"]], ids=["pi", "claude"])
    @pytest.mark.parametrize("fields", [IDS, ("id", "uuid"), ("timestamp",)], ids=["neither", "times only", "ids only"])
    def test_no_two_records_of_a_session_share_a_key(self, agent: Agent, fields: tuple[str, ...]) -> None:
        """Equal prompts are so many prompts."""
        session = agent.talk(agent.make()).user("yes").user("yes")
        found = keys(without_inner_times(session.without(*fields)))
        assert len(found) == len(set(found)) == agent.records + 2

    @pytest.mark.parametrize("agent", [AGENTS["pi"], AGENTS["claude"]], ids=["pi", "claude"])
    def test_two_sessions_that_say_the_same_share_nothing(self, agent: Agent) -> None:
        """Not even under the same call ids."""
        one, two = (
            without_inner_times(session.user("again").without(*IDS)) for session in (agent.make(), agent.make(id=CHILD))
        )
        assert not set(keys(one)) & set(keys(two))

    @pytest.mark.parametrize("agent", [AGENTS["pi"], AGENTS["claude"]], ids=["pi", "claude"])
    def test_a_copy_of_the_file_has_the_same_keys(self, agent: Agent) -> None:
        """It is the same session."""
        one, two = (without_inner_times(agent.talk(agent.make()).without(*IDS)) for _ in range(2))
        assert keys(one) == keys(two)

    def test_the_time_within_a_message_of_pi_tells_it_apart(self) -> None:
        """And makes it the same in a fork."""
        parent = PiSession(id="parent").user("continue").assistant("done").user("continue")
        child = parent.fork(id="child").without(*IDS)
        found = keys(parent.without(*IDS))
        assert len(set(found)) == 3
        assert keys(child) == found

    def test_equal_calls_of_claude_in_one_line_are_two(self) -> None:
        """The blocks have no ids."""
        block = {"type": "tool_use", "name": "Read", "input": {}}
        assert len(set(keys(ClaudeSession().response([block, block])))) == 2

    def test_equal_results_of_claude_in_one_line_are_two(self) -> None:
        """Each becomes a call of its own."""
        block = {"type": "tool_result", "content": "done"}
        assert len(set(keys(ClaudeSession().user([block, block])))) == 2


def without_inner_times(session: Any) -> Any:
    """A message of pi's has a time of its own."""
    session._lines = [re.sub(rb',"timestamp":\d+', b"", line) for line in session.lines()]
    return session


class TestPi:
    """Copies by version and by fork."""

    def test_a_fork_in_the_middle_has_the_keys_of_what_it_copied(self) -> None:
        """The rest is its own."""
        parent = pi_talk(PiSession(id="parent"))
        assert keys(parent.fork(id="child", at=2)) == keys(parent)[:4]

    def test_a_rechained_copy_has_the_key_of_its_original(self) -> None:
        """A fork leaves labels out: the parent's id is no part of a key."""
        parent = PiSession(id="parent").user("a").entry("label", targetId="x", label="here").assistant("b")
        child = PiSession(id="child").raw(parent.lines()[1])
        child.raw(parent.lines()[3].replace(b'"parentId":"', b'"parentId":"f'))
        assert keys(child) == keys(parent)

    def test_a_migration_keeps_the_keys_of_version_1(self) -> None:
        """Its entries had no ids, and each migration gives them others."""
        original = pi_talk(PiSession(id="parent", start=OLD, version=1))
        child = original.fork(id="child")
        assert keys(original.migrated("x")) == keys(original)
        assert keys(child.migrated("y")) == keys(original)

    def test_a_migration_keeps_the_keys_of_hook_messages(self) -> None:
        """Version 3 calls them custom."""
        old = PiSession(version=2).message("hookMessage", content="note")
        new = PiSession(version=3).message("custom", content="note")
        assert keys(old) == keys(new)


class TestClaude:
    """Copies by version; what ids and times tell apart."""

    def test_copies_in_a_resumed_session_have_the_keys_of_their_originals(self) -> None:
        """1.0.x copied a prompt's text as a block."""
        parent = claude_talk(ClaudeSession(version="1.0.98"))
        assert keys(parent.resumed(CHILD)) == keys(parent)

    def test_copies_in_a_fork_by_the_sdk_have_the_keys_of_their_originals(self) -> None:
        """It gives each line another uuid."""
        parent = claude_talk(ClaudeSession())
        assert keys(parent.sdk_fork(CHILD)) == keys(parent)

    def test_answers_and_calls_have_the_keys_of_their_originals_when_stamped_anew(self) -> None:
        """As 0.2.x did in resumed sessions; only the ids of the API stay."""
        call = Call("Bash", {"command": "ls"})
        parent = ClaudeSession(version="0.2.126").response(
            [{"type": "text", "text": "I look."}, tool_use(call), {"type": "text", "text": "Done."}]
        )
        child = parent.copied(CHILD, uuid="new", timestamp="2026-04-01T00:00:00.000Z", costUSD=0)
        assert keys(child) == keys(parent)
        assert len(set(keys(parent))) == 3

    def test_a_prompt_that_was_stamped_anew_is_another_one(self) -> None:
        """What 0.2.x's copies of prompts keep is the text alone, and a text alone may be anybody's."""
        parent = ClaudeSession(version="0.2.126").user("why?")
        assert keys(parent.copied(CHILD, uuid="new", timestamp="2026-04-01T00:00:00.000Z")) != keys(parent)

    def test_a_repeated_text_of_one_response_is_one_record(self) -> None:
        """Some versions wrote a response again as it grew, block by block."""
        session = ClaudeSession()
        for text in ("One.", "One.", "One. Two."):
            session.assistant(text, id="msg_01aaaaaaaaaaaaaaaaaaaa")
        assert len(keys(session)) == 3
        assert len(set(keys(session))) == 2

    def test_equal_texts_under_a_gateways_short_id_are_told_apart_by_time(self) -> None:
        """`msg_1` is an id in many sessions."""
        session = ClaudeSession().assistant("Done.", id="msg_1").assistant("Done.", id="msg_1")
        assert len(set(keys(session))) == 2
        call = Call("Bash", {"command": "ls"}, "call_0")
        assert len(set(keys(ClaudeSession().call(call).call(call)))) == 2

    def test_the_builder_copies_what_it_says(self) -> None:
        """A copy has the session's new id, and no lines about the session."""
        child = ClaudeSession().title("a").user("why?").copied(CHILD)
        assert [json.loads(line)["sessionId"] for line in child.lines()] == [CHILD]
        assert encoded(call_id(Call("a", {}))).count("toolu_01") == 1

    def test_equal_texts_in_two_responses_are_two_records(self) -> None:
        """Each response has an id."""
        assert len(set(keys(claude_talk(ClaudeSession()).assistant("Because.")))) == 10


@pytest.mark.parametrize("turns", [True, False])
class TestCodexForks:
    """Copies under new times."""

    def test_a_fork_has_the_keys_of_its_parent(self, turns: bool) -> None:
        """And its own after them."""
        parent = codex_talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child").user("and then?")
        assert keys(child)[:-1] == keys(parent)
        assert keys(child)[-1] not in keys(parent)

    def test_a_fork_of_a_fork_too(self, turns: bool) -> None:
        """It has the metas of all its ancestors."""
        parent = codex_talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child").user("and then?")
        assert keys(child.fork(id="grandchild")) == keys(child)

    def test_a_fork_in_the_middle_has_the_keys_of_what_it_copied(self, turns: bool) -> None:
        """From where it parts, even equal words are its own."""
        parent = codex_talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child", at=6 + turns).user("other").assistant("Because.")
        assert keys(child)[:3] == keys(parent)[:3]
        assert not set(keys(child)[3:]) & set(keys(parent))

    def test_a_subagents_part_of_the_history_has_its_parents_keys(self, turns: bool) -> None:
        """Calls and other answers are left out of it."""
        parent = codex_talk(CodexSession(id="parent"), turns=turns)
        child = parent.fork(id="child", subagent=True)
        assert len(keys(child)) == 7
        assert set(keys(child)) < set(keys(parent))

    def test_no_two_records_of_a_session_share_a_key(self, turns: bool) -> None:
        """Not even equal prompts, equal answers, and calls of a server that counts from 0 in each turn."""
        found = keys(codex_talk(CodexSession(), turns=turns))
        assert len(found) == len(set(found)) == 19

    def test_two_sessions_that_say_the_same_share_nothing(self, turns: bool) -> None:
        """They only look alike."""
        assert not set(keys(codex_talk(CodexSession(id="a"), turns=turns))) & set(
            keys(codex_talk(CodexSession(id="b"), turns=turns))
        )


class TestCodex:
    """What a key is not made of."""

    def test_a_subagent_with_the_last_turns_only_has_their_keys(self) -> None:
        """A turn's id stands for itself, whatever came before."""
        parent = CodexSession(id="parent").turn().user("a").assistant("b")
        first = len(parent.lines())
        parent.turn().user("a").assistant("b")
        child = CodexSession(id="child", parent_thread_id="parent")
        for line in parent.lines()[first:]:
            child.raw(line)
        assert keys(child) == keys(parent)[2:]

    def test_a_rewritten_line_keeps_its_key(self) -> None:
        """Neither times nor ordinals count, nor which of item and event comes first."""
        one = CodexSession().user("why?", "item first").assistant("a")
        other = CodexSession().user("why?", "event first").assistant("a")
        changed = CodexSession()
        for line in other.lines()[1:]:
            changed.raw(json.dumps(json.loads(line) | {"timestamp": "2027-01-01T00:00:00.000Z", "ordinal": 5}).encode())
        assert keys(one) == keys(changed)

    def test_files_without_a_meta_share_nothing(self) -> None:
        """Their names tell them apart."""
        codex = SOURCES["codex"]
        line = CodexSession().user("why?", "event").lines()[1]
        found = [codex.step(codex.begin(PurePath(name))[0], line)[1][0] for name in ("a.jsonl", "b.jsonl")]
        assert isinstance(found[0], Message)
        assert isinstance(found[1], Message)
        assert found[0].key != found[1].key
