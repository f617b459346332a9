"""What Codex's source makes of a session: identity, facts, prompts, calls. All types of lines are in the golden files."""

from pathlib import PurePath
from typing import Any

import msgspec
import pytest

from sesamed.model import (
    Fact,
    Identity,
    Message,
    Operation,
    Outcome,
    ToolCall,
    ToolResult,
    Touched,
    Undone,
    Unknown,
)
from sesamed.source import BadLineError, ForeignFileError
from sesamed.sources.codex import Codex
from sesamed.sources.codex.state import CodexState
from tests.support.codex import CodexSession, Order

CODEX = Codex()
NOW = "2026-05-26T05:32:53.236Z"
ID = "019e0000-0000-7000-8000-00000000000c"
PARENT = "019e0000-0000-7000-8000-00000000000a"
ROLLOUT = "019e0000-0000-7000-8000-00000000000f"
INJECTED = [
    "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>",
    "<user_instructions>\n\nx</user_instructions>",
    "# AGENTS.md instructions for /home/me\n\n<INSTRUCTIONS>\nx",
    "# AGENTS.md instructions\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>",
    "# AGENTS.md instructions\n\nx\n</INSTRUCTIONS>\n",
    "<permissions instructions>\nx",
    "<skill>\n<name>x</name>",
    "<turn_aborted>\nx",
    "<subagent_notification>\n{}",
    "<user_action>\n<context>x",
    "<codex_internal_context source='goal'>x",
    "<external_codex_git_state>x",
    "Warning: apply_patch was requested via exec_command. Use the apply_patch tool instead.",
    "Warning: The maximum number of unified exec processes you can keep open is 64",
    "Warning: Your account was flagged for potentially high-risk cyber activity and this request was routed to another model.",
    "<realtime_delegation>\n  <input>x</input>\n</realtime_delegation>",
    "<goal_context>x</goal_context>",
    "<recommended_plugins>x</recommended_plugins>",
    "<hook_prompt hook_run_id='1'>x</hook_prompt>",
]
DOUBTFUL = ["<tomorrow>x</tomorrow>", "Warning: it fails", "# AGENTS.md is ignored"]
ORDERS: list[Order] = ["item first", "event first", "item", "event"]


def begin(path: str) -> list[Operation]:
    """What the file's place says."""
    return CODEX.begin(PurePath(path))[1]


def run(session: CodexSession) -> tuple[CodexState, list[Operation]]:
    """The state after all lines, and their operations."""
    state, _ = CODEX.begin(PurePath(session.file_name))
    operations: list[Operation] = []
    for line in session.lines():
        state, more = CODEX.step(state, line)
        operations += more
    return state, operations


def identity(session: CodexSession) -> Operation:
    """Whose file it is."""
    return run(session)[1][0]


def facts(session: CodexSession, field: str) -> list[str]:
    """What the file says of one field."""
    return [op.value for op in run(session)[1] if isinstance(op, Fact) and op.field == field]


def said(session: CodexSession, role: str) -> list[str]:
    """What was said in a role."""
    return [op.text for op in run(session)[1] if isinstance(op, Message) and op.role == role]


def calls(session: CodexSession) -> list[ToolCall]:
    """What was called."""
    return [op for op in run(session)[1] if isinstance(op, ToolCall)]


def results(session: CodexSession) -> list[ToolResult]:
    """What came back."""
    return [op for op in run(session)[1] if isinstance(op, ToolResult)]


class TestPlace:
    """What the path alone says."""

    @pytest.mark.parametrize(
        ("name", "session"),
        [
            (f"2026/03/01/rollout-2026-03-01T09-00-00-{ID}.jsonl", ID),
            (f"rollout-2026-03-01T09-00-00-{ID}.jsonl.zst", ID),
            (f"rollout-2026-03-01T09-00-00-{ID}_019e0000-0000-7000-8000-0000000000ff.jsonl", ID),
            ("notes.jsonl", "notes"),
        ],
    )
    def test_an_empty_file_is_a_session(self, name: str, session: str) -> None:
        """Archived, compressed or reverted: its name has the id."""
        assert begin(name) == [Identity(native_id=session, origin="")]

    def test_the_index_of_names_is_no_session(self) -> None:
        """It speaks of others."""
        assert begin("session_index.jsonl") == []

    def test_a_name_that_is_no_utf8_can_be_stored(self) -> None:
        """Such bytes reach us as lone surrogates; the state still freezes."""
        state, _ = CODEX.begin(PurePath("caf\udce9.jsonl"))
        assert CODEX.thaw(CODEX.freeze(state)) == state


class TestMeta:
    """Who the session is."""

    def test_the_first_meta_states_it(self) -> None:
        """Id, origin, directory, time and branch."""
        assert run(CodexSession(id="abc", cwd="/work", git={"branch": "main"}))[1] == [
            Identity(native_id="abc", origin="abc 2026-03-01T09:00:00.000Z"),
            Fact(field="cwd", value="/work"),
            Fact(field="began", value="1772355600000"),
            Fact(field="git_branch", value="main", keep="last"),
        ]

    def test_a_thread_is_one_session_whatever_files_it_has(self) -> None:
        """A UUID tells it from all others; of other ids there may be two."""
        again = "2026-04-01T09:00:00.000Z"
        files = [CodexSession(id=ID), CodexSession(id=ID, start=again, rollout=PARENT)]
        assert [identity(file) for file in files] == [Identity(native_id=ID, origin="")] * 2
        assert begin(files[1].file_name) == [Identity(native_id=ID, origin="")]
        assert identity(CodexSession(id="x")) != identity(CodexSession(id="x", start=again))

    @pytest.mark.parametrize(
        ("base", "value"),
        [
            ({"thread_id": PARENT, "end_ordinal_exclusive": 7, "end_byte_offset": 900}, [f"{PARENT}:7"]),
            ({"thread_id": PARENT, "end_ordinal_exclusive": -7}, []),
            ({"thread_id": PARENT}, []),
            ({"end_ordinal_exclusive": 7}, []),
            (None, []),
            ("odd", []),
        ],
    )
    def test_a_paginated_fork_says_what_it_goes_on_from(self, base: Any, value: list[str]) -> None:
        """A thread, up to an ordinal."""
        assert facts(CodexSession(history_base=base), "base") == value

    @pytest.mark.parametrize(
        ("rollout", "base", "parent", "found"),
        [
            (None, "a file of p, or a thread above p", "p", ("p:7", 0)),
            (ROLLOUT, ID, None, (f"{ID}:7", 0)),
            (ROLLOUT, "an earlier file", None, (f"{ID}:7", 0)),
            (ROLLOUT, "an earlier file", "p", (f"{ID}:7", 0)),
            (ROLLOUT, "p", "p", ("p:7", 1)),
        ],
    )
    def test_what_it_goes_on_from_is_a_thread(
        self, rollout: str | None, base: str, parent: str | None, found: tuple[str, int]
    ) -> None:
        """Codex names a file of it: a fork's parent leads there; a reverted thread goes on from itself, or from its parent."""
        session = CodexSession(
            id=ID, rollout=rollout, forked_from_id=parent, history_base={"thread_id": base, "end_ordinal_exclusive": 7}
        )
        assert [(op.value, op.rank) for op in run(session)[1] if isinstance(op, Fact) and op.field == "base"] == [found]

    @pytest.mark.parametrize(("own", "rank"), [(ID, 4), (ROLLOUT, 5)])
    def test_a_files_own_id_may_stand_in_its_meta(self, own: str, rank: int) -> None:
        """Of newer builds; the first file of a thread has the thread's."""
        session = CodexSession(id=ID, rollout_id=own).event("thread_name_updated", thread_name="x")
        assert [op.rank for op in run(session)[1] if isinstance(op, Fact) and op.field == "name"] == [rank]

    def test_a_copied_meta_changes_nothing(self) -> None:
        """A fork has its parent's after its own."""
        child = CodexSession(id="parent", cwd="/p", git={"branch": "main"}).user("a").fork(id="child")
        assert [op.native_id for op in run(child)[1] if isinstance(op, Identity)] == ["child"]
        assert facts(child, "git_branch") == []

    def test_a_later_meta_of_its_own_has_the_branch_of_its_day(self) -> None:
        """Codex appends one when the session's metadata are edited."""
        session = CodexSession(git={"branch": "main"}).user("a")
        session.line("session_meta", {"id": session.id, "git": {"branch": "feature"}})
        assert facts(session, "git_branch") == ["main", "feature"]

    @pytest.mark.parametrize(
        ("meta", "parent", "subagent"),
        [
            ({"forked_from_id": "p"}, ["p"], []),
            ({"parent_thread_id": "p", "thread_source": "subagent"}, ["p"], ["1"]),
            ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}}, ["p"], ["1"]),
            ({"source": {"subagent": "review"}}, [], ["1"]),
            ({"source": {"internal": "memory_consolidation"}}, [], ["1"]),
            ({"source": "cli"}, [], []),
        ],
    )
    def test_forks_and_subagents_name_their_parent(
        self, meta: dict[str, Any], parent: list[str], subagent: list[str]
    ) -> None:
        """In whichever way their build does."""
        assert facts(CodexSession(**meta), "parent_id") == parent
        assert facts(CodexSession(**meta), "subagent") == subagent

    def test_a_bare_file_has_its_directory_in_the_first_context(self) -> None:
        """It has no other place for it."""
        assert facts(CodexSession(bare=True).said("user", INJECTED[0]).said("user", INJECTED[0]), "cwd") == ["/x"]

    @pytest.mark.parametrize(
        "line",
        [
            b'{"session_id":"a","ts":1772355600,"text":"of history.jsonl"}',
            b'{"id":"a","thread_name":"of the index","updated_at":"2026-03-01T09:00:00Z"}',
            b'{"type":"session","id":"a","timestamp":"2026-03-01T09:00:00Z"}',
            b'{"type":"user","message":{}}',
            b"{}",
        ],
    )
    def test_another_first_line_makes_the_file_foreign(self, line: bytes) -> None:
        """Whatever its name is."""
        with pytest.raises(ForeignFileError):
            CODEX.step(CODEX.begin(PurePath("x.jsonl"))[0], line)

    def test_a_rollout_may_have_lost_its_beginning(self) -> None:
        """Its name still has the id."""
        state, _ = CODEX.begin(PurePath("x.jsonl"))
        _, operations = CODEX.step(state, CodexSession().user("a", "event").lines()[1])
        assert isinstance(operations[0], Message)

    def test_a_bad_first_line_may_be_followed_by_the_meta(self) -> None:
        """A line that can't be read says nothing about the file."""
        state, _ = CODEX.begin(PurePath("x.jsonl"))
        with pytest.raises(BadLineError):
            CODEX.step(state, b'{"timestamp":"2026')
        assert isinstance(CODEX.step(state, CodexSession().lines()[0])[1][0], Identity)

    def test_a_blank_line_says_nothing(self) -> None:
        """Before the meta and after it."""
        state, _ = CODEX.begin(PurePath("x.jsonl"))
        assert CODEX.step(state, b" \r") == (state, [])


class TestPrompts:
    """What a person typed, once, and nothing else."""

    @pytest.mark.parametrize("order", ORDERS)
    def test_a_prompt_comes_once(self, order: Order) -> None:
        """Whichever of response item and event comes first, or is missing."""
        assert said(CodexSession().user("why?", order).assistant("a").user("how?", order), "user") == ["why?", "how?"]

    @pytest.mark.parametrize("order", ORDERS)
    def test_equal_prompts_are_as_many(self, order: Order) -> None:
        """Each has its own pair."""
        assert said(CodexSession().user("go on", order).user("go on", order), "user") == ["go on", "go on"]

    @pytest.mark.parametrize("text", INJECTED)
    def test_injected_text_is_no_prompt(self, text: str) -> None:
        """With events in the file, and without; alone, and beside a prompt."""
        assert said(CodexSession().said("user", text).user("why?").said("user", text), "user") == ["why?"]
        assert said(CodexSession(bare=True).said("user", text).said("user", text, "why?"), "user") == ["why?"]

    @pytest.mark.parametrize("text", INJECTED)
    def test_what_an_event_tells_was_typed(self, text: str) -> None:
        """A person may paste anything."""
        assert said(CodexSession().user("a").user(text), "user") == ["a", text]

    def test_unknown_wrappers_are_doubted_where_events_tell(self) -> None:
        """In a file without events they are the best that there is."""
        assert said(CodexSession().user("a").said("user", "<tomorrow>x</tomorrow>"), "user") == ["a"]
        assert said(CodexSession(bare=True).said("user", "<div>why?</div>"), "user") == ["<div>why?</div>"]

    @pytest.mark.parametrize("text", DOUBTFUL)
    def test_a_doubtful_text_before_the_first_event_is_no_prompt(self, text: str) -> None:
        """The event that comes then says what was typed; the session is named by that."""
        session = CodexSession().said("user", text).user("why?").assistant("Because.")
        assert (said(session, "user"), facts(session, "name")) == (["why?"], ["why?"])

    @pytest.mark.parametrize("text", DOUBTFUL)
    @pytest.mark.parametrize("order", ORDERS)
    def test_a_doubtful_text_that_was_typed_is_a_prompt(self, text: str, order: Order) -> None:
        """Once, in its place, whether an event says so or an answer follows."""
        session = CodexSession().user(text, order).assistant("Because.").user("go on", order)
        assert said(session, "user") == [text, "go on"]
        assert [op.text for op in run(session)[1] if isinstance(op, Message)][1] == "Because."

    def test_a_doubtful_text_is_a_prompt_once_a_tool_is_called(self) -> None:
        """At the time at which it was said."""
        session = CodexSession().said("user", DOUBTFUL[0]).tool("shell", {"command": "ls"}, "x")
        prompt, call = [op for op in run(session)[1] if isinstance(op, Message | ToolCall)]
        assert (prompt.time_ms, call.time_ms) == (1772355601000, 1772355602000)

    def test_a_doubtful_text_too_long_to_hold_is_taken_as_it_looks(self) -> None:
        """What is held is stored with each commit."""
        assert said(CodexSession().said("user", "<tomorrow>" + "x" * 40_000), "user") != []
        assert said(CodexSession().said("user", *["<tomorrow>x"]), "user") == []

    def test_a_restart_between_two_lines_changes_nothing(self) -> None:
        """The state is all that is known."""
        session = CodexSession().said("user", "<tomorrow>").said("user", "<div>why?").said("user", "Warning: x")
        lines = session.event("user_message", message="<div>why?").assistant("Because.").lines()
        state, found = CODEX.begin(PurePath(session.file_name))
        for line in lines:
            state, more = CODEX.step(CODEX.thaw(CODEX.freeze(state)), line)
            found += more
        assert [op.text for op in found if isinstance(op, Message)] == ["<div>why?", "Because."]

    def test_a_person_may_write_of_agents_md(self) -> None:
        """In a file without events, too."""
        text = "# AGENTS.md instructions are ignored, why?"
        assert said(CodexSession(bare=True).said("user", text), "user") == [text]

    def test_a_queued_prompt_without_an_event_is_kept(self) -> None:
        """Builds of 2025 wrote none for what was typed while the model worked."""
        assert said(CodexSession().user("a").said("user", "faster, please"), "user") == ["a", "faster, please"]

    def test_marks_tell_best(self) -> None:
        """A block is the user's or it is not, whatever it looks like."""
        marks = {"content_item_kinds": ["user.text", "environments.environment_context"]}
        session = CodexSession().said(
            "user", INJECTED[0], "plain", internal_chat_message_metadata_passthrough=marks
        )  # fmt: skip
        assert said(session, "user") == [INJECTED[0]]

    def test_blocks_may_be_joined_in_other_ways(self) -> None:
        """The event has them without a break; frames of images are in the response item only."""
        session = CodexSession().said("user", "one\n", "<image name=[Image #1]>", "</image>", "two")
        assert said(session.event("user_message", message="one\ntwo"), "user") == ["one\n\ntwo"]

    def test_an_image_is_a_prompt(self) -> None:
        """Without a word, once."""
        session = CodexSession().response("message", role="user", content=[{"type": "input_image", "image_url": "x"}])
        assert said(session.event("user_message", message="", images=["x"]), "user") == [""]

    def test_an_editors_context_is_left_out(self) -> None:
        """The request stays."""
        text = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nwhy?"
        assert said(CodexSession().user(text), "user") == ["why?"]
        assert facts(CodexSession().user(text), "name") == ["why?"]

    def test_rules_that_are_sent_again_are_left_out(self) -> None:
        """Some clients put the project's rules before the prompt, as they stand in what Codex sends, without what Codex adds to them."""
        rules = "This is a web application.\n\n## Guidelines\n\n- Use `mix precommit` when you are done, and mend what it finds."
        sent = f"# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\n{rules}\n\n## Skills\nA skill is\n</INSTRUCTIONS>"
        session = (
            CodexSession().said("user", sent).user(f"{rules}\n\nwhy?").user(rules).user(f"{rules[:90]}\n\nand this?")
        )
        assert said(session, "user") == ["why?", rules, f"{rules[:90]}\n\nand this?"]
        assert facts(session, "name") == ["why?"]
        assert said(CodexSession().user(f"{rules}\n\nwhy?"), "user") == [f"{rules}\n\nwhy?"]

    def test_what_somebody_may_say_is_no_rule(self) -> None:
        """Though it is all that the rules are."""
        session = (
            CodexSession()
            .said("user", "<user_instructions>\n\nBe brief.\n\n</user_instructions>")
            .user("Be brief.\nwhy?")
        )
        assert said(session, "user") == ["Be brief.\nwhy?"]

    @pytest.mark.parametrize(
        ("text", "typed"),
        [
            (
                "## User Input\n\n```text\nthe milestone\n```\n\nYou **MUST** consider the user input first",
                "the milestone",
            ),
            ("## User Input\n\n```text\n$ARGUMENTS\n```\n\nYou **MUST** consider the user input first", ""),
            (
                "---\ndescription: Plan.\n---\n\n## User Input\n```text\nx\n```\nYou **MUST** consider the user input",
                "x",
            ),
            ("---\ndescription: Create the plan.\n---\n\nGiven what was said, plan it.", ""),
        ],
    )
    def test_of_a_stored_prompt_the_arguments_are_the_persons(self, text: str, typed: str) -> None:
        """The rest is said by nobody; it is a message beside, also in a copy."""
        assert (said(CodexSession().user(text), "user"), said(CodexSession().user(text), "custom")) == ([typed], [text])
        keys = [
            [op.key for op in run(CodexSession().user(text, order))[1] if isinstance(op, Message)] for order in ORDERS
        ]
        assert all(len(set(some)) == 2 and some == keys[0] for some in keys)

    @pytest.mark.parametrize(
        "text", ["## User Input\n\n```text\nx\n```\n\nis shown twice", "---\nmodel: x\n---\nDo it"]
    )
    def test_what_looks_like_a_stored_prompt_is_the_persons(self, text: str) -> None:
        """Where nothing says that it is one."""
        assert (said(CodexSession().user(text), "user"), said(CodexSession().user(text), "custom")) == ([text], [])

    def test_a_command_of_the_person_is_a_call(self) -> None:
        """With its output and how it went."""
        text = "<user_shell_command>\n<command>\nmake\n</command>\n<result>\nExit code: 2\nOutput:\nno\n</result>"
        call = calls(CodexSession().said("user", text + "\n</user_shell_command>"))[0]
        assert (call.role, call.arguments, call.output) == ("user", b'{"command":"make"}', "Exit code: 2\nOutput:\nno")
        assert call.is_error


class TestNames:
    """What a session is called."""

    def test_the_first_prompt_names_it(self) -> None:
        """Once."""
        assert facts(CodexSession().user(" why?\nlog").user("how?"), "name") == ["why?"]

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("---\ndescription: Create the plan.\n---\n\nThe user input", "Create the plan."),
            ("---\nmodel: x\n---\nDo it", "Do it"),
            ("## User Input\n\n```text\nfirst milestone\n```\n\nYou MUST", "first milestone"),
            ("## User Input\n\n```text\n\n```\n\nThe rest", "The rest"),
        ],
    )
    def test_a_stored_prompt_is_named_by_what_is_in_it(self, text: str, name: str) -> None:
        """Its arguments, its description, its first words."""
        assert facts(CodexSession().user(text), "name") == [name]

    def test_a_given_name_ranks_higher_and_may_be_taken_back(self) -> None:
        """A copied one is the parent's."""
        session = CodexSession().event("thread_name_updated", thread_id=ID, thread_name=" x ")
        session.event("thread_name_updated", thread_id="parent", thread_name="y").event("thread_name_updated")
        found = [op for op in run(session)[1] if isinstance(op, Fact) and op.field == "name"]
        assert [(fact.value, fact.rank, fact.keep) for fact in found] == [("x", 4, "last"), ("", 4, "last")]

    def test_a_later_file_of_the_thread_knows_its_name_better(self) -> None:
        """And the index of names best of all."""
        ranks = []
        for session in (CodexSession(), CodexSession(rollout=PARENT)):
            session.event("thread_name_updated", thread_name="x")
            ranks += [op.rank for op in run(session)[1] if isinstance(op, Fact) and op.field == "name"]
        index, _ = CODEX.begin(PurePath("session_index.jsonl"))
        ranks += [op.rank for op in CODEX.step(index, b'{"id":"a","thread_name":"x"}')[1] if isinstance(op, Fact)]
        assert ranks == [4, 5, 6]


class TestSubagents:
    """What a subagent with a part of its parent's history is called: the last name given is the one that stands."""

    @staticmethod
    def parent() -> CodexSession:
        """Somebody who said something."""
        return CodexSession(id=PARENT).turn().user("one").assistant("a").turn().user("two").assistant("b")

    def test_its_own_first_prompt_names_it(self) -> None:
        """Turns that began after it are its own."""
        child = self.parent().fork(id=ID, subagent=True).turn().user("look").turn().user("again")
        assert facts(child, "name") == ["one", "two", "look"]

    def test_without_ids_of_turns_its_last_prompt_does(self) -> None:
        """Nothing tells where the copy ends."""
        child = CodexSession(id=PARENT).user("one").fork(id=ID, subagent=True).user("look")
        assert facts(child, "name") == ["one", "look"]

    def test_newer_builds_say_where_its_own_begin(self) -> None:
        """By an ordinal; the parent's meta need not be there."""
        child = CodexSession(thread_source="subagent", ordinal=0, subagent_history_start_ordinal=3)
        child.said("user", "one").said("user", "two").said("user", "look").said("user", "again")
        assert facts(child, "name") == ["one", "two", "look"]

    def test_a_copied_name_is_the_parents(self) -> None:
        """Even without its id."""
        child = self.parent().event("thread_name_updated", thread_name="x").fork(id=ID, subagent=True)
        assert facts(child, "name") == ["one", "two"]

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            (
                "Message Type: NEW_TASK\nTask name: /root/find_it\nSender: /root\nPayload:\nFind it, please.",
                "Find it, please.",
            ),
            ("Message Type: NEW_TASK\nTask name: /root/find_it\nSender: /root\nPayload:\n", "find_it"),
            ("Find it.", "Find it."),
        ],
    )
    def test_its_task_may_come_from_another_agent(self, text: str, name: str) -> None:
        """What is in it may be encrypted. It names no session that a person began."""
        content = [{"type": "input_text", "text": text}]
        child = CodexSession(thread_source="subagent").response("agent_message", content=content)
        assert facts(child, "name") == [name]
        assert facts(CodexSession().response("agent_message", content=content), "name") == []

    def test_a_fork_is_called_like_its_parent(self) -> None:
        """A person made it to go on."""
        assert facts(self.parent().fork(id=ID).turn().user("look"), "name") == ["one"]


class TestRollBacks:
    """Turns that were taken back."""

    @staticmethod
    def prompts(session: CodexSession) -> list[int]:
        """The keys of the prompts."""
        return [op.key for op in run(session)[1] if isinstance(op, Message) and op.prompt]

    @staticmethod
    def undone(session: CodexSession) -> list[int]:
        """From which record on the file was taken back, each time."""
        return [op.key for op in run(session)[1] if isinstance(op, Undone)]

    @pytest.mark.parametrize(
        ("turns", "first"), [(1, [2]), (2, [1]), (3, [0]), (4, [0]), (1 << 70, [0]), (0, []), (-1, []), (None, [])]
    )
    def test_the_last_turns_are_taken_back(self, turns: Any, first: list[int]) -> None:
        """So many, or all there are."""
        session = CodexSession().user("a").assistant("b").user("c").tool("ls", {}, "x").user("d")
        session.event("thread_rolled_back", num_turns=turns)
        assert self.undone(session) == [self.prompts(session)[place] for place in first]

    def test_a_second_one_goes_further_back(self) -> None:
        """What was said in between is new."""
        session = CodexSession().user("a").user("b").rolled_back(1).user("b").rolled_back(2).rolled_back(1)
        keys = self.prompts(session)
        assert self.undone(session) == [keys[1], keys[0]]
        assert len(set(keys)) == 3

    def test_only_the_last_turns_are_known(self) -> None:
        """The state stays small."""
        session = CodexSession()
        for _ in range(70):
            session.user("go on")
        assert self.undone(session.rolled_back(99)) == [self.prompts(session)[6]]


def test_what_is_said_in_a_paginated_file_has_its_number() -> None:
    """A call too; others have none, and no number is one that cannot be stored."""
    session = CodexSession(ordinal=0).user("a").call("ls", {}, "c").output("x", "c").assistant("b")
    numbers = [op.ordinal for op in run(session)[1] if isinstance(op, Message | ToolCall)]
    assert numbers == [1, 3, 6]
    assert [op.ordinal for op in run(CodexSession().user("a"))[1] if isinstance(op, Message)] == [None]
    assert [op.ordinal for op in run(CodexSession(ordinal=1 << 63).user("a"))[1] if isinstance(op, Message)] == [None]


@pytest.mark.parametrize(
    ("told", "kept"), [(0, 0), (1, 1), (2**63 - 1, 2**63 - 1), (2**63, None), (-1, None), ("1", None), (None, None)]
)
def test_an_ordinal_is_a_number_from_0_to_the_end_of_sqlites(told: Any, kept: int | None) -> None:
    """Whichever line has it: a file may have lost its beginning, and then the first one says something."""
    line = {"timestamp": NOW, "ordinal": told, "type": "event_msg", "payload": {"type": "user_message", "message": "a"}}
    state, _ = CODEX.begin(PurePath("a.jsonl"))
    (message,) = [op for op in CODEX.step(state, msgspec.json.encode(line))[1] if isinstance(op, Message)]
    assert message.ordinal == kept


def test_a_state_that_an_earlier_release_stored_is_read() -> None:
    """Its fields keep their names there, whatever they are called here."""
    session = CodexSession().user("a", "event").output("x", "lost").call("x", {}, "c").output("It runs on.", "c")
    stored = msgspec.json.decode(CODEX.freeze(run(session)[0]))
    assert {"told", "typed", "said", "done"} <= set(stored)


def test_the_same_may_be_said_any_number_of_times() -> None:
    """More often than the state can count."""
    session = CodexSession().user("a")
    for _ in range(400):
        session.said("assistant", "I look.")
    state, operations = run(session)
    assert len({op.key for op in operations if isinstance(op, Message)}) == 401
    assert len(state.keys) <= 128


class TestCalls:
    """Tools and what they gave back."""

    @pytest.mark.parametrize(
        ("output", "text", "is_error"),
        [
            ('{"output":"a","metadata":{"exit_code":1}}', "a", True),
            ('{"output":"a","metadata":{"exit_code":0}}', "a", False),
            ("Exit code: 1\nOutput:\na", "Exit code: 1\nOutput:\na", True),
            ("Output:\nExit code: 1", "Output:\nExit code: 1", False),
            ("Process exited with code 0\nOutput:\na", "Process exited with code 0\nOutput:\na", False),
            ({"content": "a", "success": False}, "a", True),
            ({"content": '[{"text":"a\\nb","type":"text"}]', "success": True}, "a\nb", False),
            ({"result": {"text": "a\nb"}}, "result.text:\na\nb", False),
            ('[{"type":"text","text":"a\\nb"},{"type":"image","data":"x"}]', "a\nb", False),
            ('Wall time: 1 s\nOutput:\n[{"type":"text","text":"a\\nb","annotations":null}]', "a\nb", False),
            ('[{"type":"image","data":"x"}]', '[{"type":"image","data":"x"}]', False),
            ('[{"type":"text"}, 1]', '[{"type":"text"}, 1]', False),
            ('[{"text":"a"}]', '[{"text":"a"}]', False),
            ("[{torn", "[{torn", False),
            ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], "a", False),
            ("{not json", "{not json", False),
            ('{"agent_id":"x"}', '{"agent_id":"x"}', False),
            ("apply_patch verification failed: x", "apply_patch verification failed: x", True),
            (None, "", False),
            ([1], "[1]", False),
        ],
    )
    def test_an_output_tells_how_its_call_went(self, output: Any, text: str, is_error: bool) -> None:
        """Each age of Codex in its way."""
        result = results(CodexSession().tool("shell", {}, output))[0]
        assert (result.text, result.is_error) == (text, is_error)

    def test_an_event_knows_better(self) -> None:
        """An exit code is a fact, a text may say anything."""
        session = CodexSession().call("x", {}, "c1").event("exec_command_end", call_id="c1", exit_code=1)
        assert results(session.output("Exit code: 0", "c1"))[0].is_error

    @pytest.mark.parametrize(
        ("output", "exit_code", "wrong"),
        [("It runs on.", 1, [True]), ("It runs on.", 0, []), ("It runs on.", None, []), ("Exit code: 0", 1, [])],
    )
    def test_an_exit_code_may_come_late(self, output: str, exit_code: int | None, wrong: list[bool]) -> None:
        """Of a command that ran on after its output; once."""
        session = CodexSession().call("x", {}, "c1").output(output, "c1")
        for _ in range(2):
            session.event("exec_command_end", call_id="c1", exit_code=exit_code)
        found = [op for op in run(session)[1] if isinstance(op, Outcome)]
        assert [(op.key, op.is_error) for op in found] == [(calls(session)[0].key, failed) for failed in wrong]

    def test_only_the_last_calls_may_end_late(self) -> None:
        """The state stays small."""
        session = CodexSession()
        for number in range(40):
            session.call("x", {}, f"c{number}").output("It runs on.", f"c{number}")
        assert list(run(session)[0].uncertain) == [f"c{number}" for number in range(8, 40)]

    def test_results_find_their_calls(self) -> None:
        """In whatever order they come."""
        session = CodexSession().call("a", {}, "c1").call("b", {}, "c2").output("2", "c2").output("1", "c1")
        keys = [call.key for call in calls(session)]
        assert [(result.key, result.text) for result in results(session)] == [(keys[1], "2"), (keys[0], "1")]

    def test_the_oldest_of_too_many_open_calls_is_forgotten(self) -> None:
        """The state stays small, however many turns were aborted."""
        session = CodexSession()
        for number in range(130):
            session.call("ls", {}, f"c{number}")
        assert list(run(session)[0].calls) == [f"c{number}" for number in range(2, 130)]

    def test_endless_ids_are_not_kept(self) -> None:
        """No line makes the state large."""
        session = CodexSession().call("ls", {}, "x" * 5000).turn("y" * 5000)
        assert len(CODEX.freeze(run(session)[0])) < 700

    def test_half_an_emoji_costs_itself(self) -> None:
        """Also in what is decoded later than its line."""
        line = b'{"timestamp":"","type":"response_item","payload":{"type":"function_call_output","output":"a\\ud83d"}}'
        assert calls(CodexSession().raw(line))[0].output == "a\N{REPLACEMENT CHARACTER}"
        line = line.replace(b"_output", b"").replace(b'"output"', b'"arguments"')
        assert calls(CodexSession().raw(line))[0].arguments.decode() == "a\N{REPLACEMENT CHARACTER}"

    def test_arguments_may_be_any_text(self) -> None:
        """They stay as they are."""
        assert calls(CodexSession(cwd="/s").call("x", '{"cwd": oh'))[0].arguments == b'{"cwd": oh'

    def test_a_call_knows_its_directory(self) -> None:
        """Its own, else the turn's, else the session's."""
        session = CodexSession(cwd="/s").call("a", {}).line("turn_context", {"cwd": "/t"}).call("b", {})
        assert [call.cwd for call in calls(session.call("c", {"workdir": "/c"}))] == ["/s", "/t", "/c"]

    @pytest.mark.parametrize(
        ("name", "arguments", "hidden"),
        [
            ("shell", {"command": ["bash", "-lc", "sesamectl search x"]}, True),
            ("exec_command", {"cmd": "sesamectl search x"}, True),
            ("mcp__sesame__search_sessions", {}, True),
            ("shell", {"command": ["bash", "-lc", "grep sesamectl README.md"]}, False),
        ],
    )
    def test_our_own_searches_are_hidden(self, name: str, arguments: dict[str, Any], hidden: bool) -> None:
        """And so is what they found."""
        session = CodexSession().tool(name, arguments, "x")
        assert (calls(session)[0].hidden, results(session)[0].hidden) == (hidden, hidden)

    def test_a_line_that_is_not_decoded_changes_nothing(self) -> None:
        """Snapshots and encrypted reasoning; one that is glued to another line is looked at."""
        session = CodexSession().response("ghost_snapshot", ghost_commit={"id": "x" * 1000})
        assert len(run(session)[1]) == 3
        glued = session.lines()[1][:-9] + CodexSession().user("a", "event").lines()[1]
        assert said(CodexSession().raw(glued), "user") == ["a"]


@pytest.mark.parametrize("review", [None, [], {"findings": 1}, {"findings": [1, {"title": " "}]}])
def test_a_review_may_be_odd_or_interrupted(review: Any) -> None:
    """Then it says nothing."""
    assert said(CodexSession().event("exited_review_mode", review_output=review), "assistant") == []


def test_a_review_that_cannot_be_decoded_says_nothing() -> None:
    """Its number is none."""
    line = CodexSession().event("exited_review_mode", review_output=0).lines()[1].replace(b":0}", b":1e999}")
    assert said(CodexSession().raw(line), "assistant") == []


def test_words_of_agents_may_be_empty() -> None:
    """Then they are none."""
    assert said(CodexSession().line("inter_agent_communication", {"content": ""}), "custom") == []


def test_an_item_may_be_missing_or_empty() -> None:
    """Then it says nothing, or is counted."""
    session = CodexSession().item("UserMessage", content=[]).event("item_completed")
    assert run(session)[1][3:] == [Unknown(type="item/")]


def test_bytes_that_are_no_text_cost_themselves() -> None:
    """Also where they were passed over when the line was decoded."""
    line = CodexSession().output("a?").lines()[1].replace(b"a?", b"a\xff")
    assert calls(CodexSession().raw(line))[0].output == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("result", [{"Ok": {"content": [{"type": "text", "text": "a"}]}}, "a"])
def test_a_tools_result_in_an_event_may_have_any_shape(result: Any) -> None:
    """Its texts are collected."""
    session = CodexSession().event("mcp_tool_call_end", call_id="c", result=result)
    assert calls(session)[0].output in ("a", "")
    assert not calls(session)[0].is_error


def test_a_source_that_is_odd_says_nothing() -> None:
    """A number that is none, too: it is found when the source is decoded."""
    line = CodexSession(source="x").lines()[0].replace(b'"x"', b"1e999")
    assert isinstance(CODEX.step(CODEX.begin(PurePath("a.jsonl"))[0], line)[1][0], Identity)


FINDINGS = [{"title": "[P1] Check it", "body": "It may be 0."}]
LIST = "Review comment:\n\n- [P1] Check it — /a.py:1-2\n  It may be 0."


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"overall_explanation": "Not right."}, "Not right."),
        ({"overall_explanation": "Not right.", "findings": FINDINGS}, f"Not right.\n\n{LIST}"),
        ({"overall_explanation": "", "findings": FINDINGS}, LIST),
        ({"findings": FINDINGS * 2}, LIST.replace("Review comment", "Full review comments").replace("- [", "- [x] [")),
    ],
)
@pytest.mark.parametrize("event_first", [True, False])
def test_a_review_is_told_once(told: Any, text: str, event_first: bool) -> None:
    """By the event and by the model, in either order; what is said later is said again."""
    session = CodexSession().user("go")
    if event_first:
        session.event("exited_review_mode", review_output=told)
    session.said("assistant", text)
    if not event_first:
        session.event("exited_review_mode", review_output=told)
    assert len(said(session, "assistant")) == 1
    assert said(session.said("assistant", text), "assistant")[1:] == [text]


def test_a_review_that_the_model_does_not_repeat_is_forgotten() -> None:
    """A later answer may begin like it, and a later review like an answer."""
    session = CodexSession().user("go").event("exited_review_mode", review_output={"overall_explanation": "Good."})
    session.user("more").said("assistant", "Good.")
    session.user("review").event("exited_review_mode", review_output={"overall_explanation": "Good."})
    assert said(session, "assistant") == ["Good."] * 3


@pytest.mark.parametrize(
    ("before", "kept", "failed"),
    [
        (
            "Chunk ID: 5726b8\nWall time: 3.8 seconds\nProcess exited with code 0\nOriginal token count: 4\nOutput:\n",
            "",
            False,
        ),
        (
            "Chunk ID: 5726b8\nWall time: 3.8 seconds\nProcess exited with code 3\nOriginal token count: 4\nOutput:\n",
            "",
            True,
        ),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\n", "", True),
        (
            "Chunk ID: a\nWall time: 1.0 seconds\nProcess running with session ID 7\nOriginal token count: 0\nOutput:\n",
            "Process running with session ID 7\n",
            False,
        ),
        ("Wall time: 9 years\n", "Wall time: 9 years\n", False),
    ],
)
def test_what_stands_before_every_output_is_left_out(before: str, kept: str, failed: bool) -> None:
    """It is the same each time; how the command ended is the result's flag."""
    (result,) = results(CodexSession().user("go").tool("exec_command", {"cmd": "ls"}, f"{before}flamingo\nOutput:\n"))
    assert (result.text, result.is_error) == (f"{kept}flamingo\nOutput:\n", failed)


CHANGES = {
    "/home/me/project/notes.txt": {"type": "add", "content": "x"},
    "/home/me/project/old.txt": {"type": "update", "unified_diff": "", "move_path": "/home/me/project/new.txt"},
    "/home/me/project/odd.txt": None,
}
TOUCHED = tuple(f"/home/me/project/{name}.txt" for name in ("notes", "old", "new", "odd"))


@pytest.mark.parametrize("legacy", [True, False])
def test_files_that_an_event_tells_of_were_touched(legacy: bool) -> None:
    """By absolute paths, also when the patch went through the shell."""
    session = CodexSession().user("go").call("exec_command", {"cmd": "apply_patch < p"}, "call_a1")
    if legacy:
        session.event("patch_apply_end", call_id="call_a1", changes=CHANGES, success=True)
    else:
        session.item("FileChange", id="call_a1", changes=CHANGES, status="completed")
    session.output("Success.", "call_a1")
    (call,) = calls(session)
    assert [op for op in run(session)[1] if isinstance(op, Touched)] == [Touched(key=call.key, paths=TOUCHED)]


def test_files_are_touched_in_a_file_of_events_alone() -> None:
    """The call is made of the event."""
    session = CodexSession().user("go", "event").event("patch_apply_end", call_id="c", changes=CHANGES, success=True)
    (call,) = calls(session)
    (touched,) = [op for op in run(session)[1] if isinstance(op, Touched)]
    assert (call.name, touched.key) == ("apply_patch", call.key)


@pytest.mark.parametrize("changes", [None, [], "x", {}])
def test_changes_of_any_shape(changes: Any) -> None:
    """What is no object names no files."""
    session = CodexSession().user("go").call("apply_patch", {}, "c1").item("FileChange", id="c1", changes=changes)
    assert [op for op in run(session)[1] if isinstance(op, Touched)] == []
