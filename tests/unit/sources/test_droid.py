"""What Factory Droid's source makes of a session: identity, facts, prompts, calls. All types of lines are in the golden files."""

from typing import Any

import pytest

from sesamed.model import Fact, Identity, Message, NameRank, Operation, ToolCall, ToolResult
from sesamed.source import ForeignFileError, Lines, ShapeFinder
from sesamed.sources.droid import Droid
from sesamed.sources.droid.records import Prompt, prompt_of
from tests.support.droid import REMINDER, DroidSession, text_block
from tests.support.operations import facts, keys, read_items, records
from tests.support.sessions import Call

DROID = Droid()
ID = "d1010000-0000-4000-8000-000000000001"
LS = Call("Execute", {"command": "ls"}, "call_a")
SKILL = '<system-notification>\nSkills.\n<skill filePath="x">\n<name>nuts</name>\n# All of it\n</skill>\n</system-notification>'
TASK = """# Task Tool Invocation

You are somebody.
---BEGIN TASK FROM PARENT AGENT---
Crack it.
---END TASK FROM PARENT AGENT---

Report."""


def of(session: DroidSession) -> list[Operation]:
    """What a session's file says."""
    return steps(session.lines(), session.file_name)


def steps(lines: list[bytes], path: str) -> list[Operation]:
    """What these lines of a file say."""
    return read_items(DROID, lines, path)


def said(session: DroidSession) -> list[tuple[str, str]]:
    """Its messages: who said what."""
    return [(record.role, record.text) for record in records(of(session)) if isinstance(record, Message)]


@pytest.mark.parametrize(
    ("path", "held"),
    [
        (b"-home-me/5ea1.jsonl", True),
        (b"5ea1.jsonl", True),
        (b"btw/5ea1.jsonl", True),
        (b"-home-me/5ea1.settings.json", False),
        (b"-home-me/5ea1.settings.json.bak", False),
        (b"-home-me/5ea1.jsonl.lock/owner.json", False),
        (b"-home-me/5ea1.jsonl.tmp", False),
    ],
)
def test_sessions_are_read_and_nothing_else(path: bytes, held: bool) -> None:
    assert isinstance(ShapeFinder(DROID.shapes).find(path), Lines) == held


@pytest.mark.parametrize("line", [b'{"type":"message","id":"x"}', b'{"type":"system","session_id":"x"}', b"{}"])
def test_another_file_is_no_session(line: bytes) -> None:
    """What `droid exec` prints looks similar."""
    with pytest.raises(ForeignFileError):
        steps([line], "a.jsonl")


def test_the_header_says_which_session_it_is_and_where() -> None:
    given = of(DroidSession(cwd="/home/me/nuts"))
    assert Identity(native_id=ID, origin="") in given
    assert facts(given, "cwd") == [("/home/me/nuts", 0)]


def test_a_header_that_is_rewritten_changes_no_record() -> None:
    """The title, or the directory that the session works in now."""
    session = DroidSession().context().user("Which nut?").tool("Execute", {"command": "ls"}, "walnut", 0)
    before = records(of(session))
    assert records(of(session.named("Nuts", lastCwd="/elsewhere"))) == before


# -- names


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ({"title": "New Session"}, []),
        ({"title": "Generating title…"}, []),
        ({"title": "Cracking walnuts"}, [("Cracking walnuts", NameRank.GIVEN)]),
        ({"title": "hi"}, [("hi", NameRank.STAND_IN)]),
        ({"title": "hi", "sessionTitle": "New Session"}, [("hi", NameRank.STAND_IN)]),
        ({"title": "hi", "sessionTitle": "General greeting"}, [("General greeting", NameRank.GIVEN)]),
        ({"title": 'Skill "nuts" activated'}, []),
        ({"title": "# Task Tool Invocation Subagent type: worker", "isSessionTitleManuallySet": True}, []),
        ({"title": "Nuts", "isSessionTitleManuallySet": True}, [("Nuts", NameRank.RENAMED)]),
        (
            {"title": "Worker: Crack", "isSessionTitleManuallySet": True, "callingToolUseId": "a"},
            [("Worker: Crack", NameRank.GIVEN)],
        ),
    ],
)
def test_the_title_is_in_the_header(header: dict[str, Any], name: list[tuple[str, int]]) -> None:
    """The person's, or a model's; a greeting names a session until something is said."""
    assert facts(of(DroidSession(**header)), "name") == name


def test_a_prompt_names_a_session_that_has_no_title() -> None:
    """A skill does so until something is said."""
    session = DroidSession().user(SKILL).user("Which nut?").user("And this?")
    assert facts(of(session), "name") == [("[skill nuts]", NameRank.STAND_IN), ("Which nut?", NameRank.PROMPT)]


# -- what was said, and by whom


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("Which nut?", Prompt("Which nut?", [])),
        (f"{REMINDER}\n\nWhich nut?", Prompt("Which nut?", [])),
        (f"{REMINDER}{REMINDER}\nWhich nut?\n{REMINDER}\n", Prompt("Which nut?", [])),
        (REMINDER, Prompt("", [])),
        (
            "What is <system-reminder>x</system-reminder> for?",
            Prompt("What is <system-reminder>x</system-reminder> for?", []),
        ),
        (SKILL, Prompt("", ["nuts"])),
        (f"{SKILL}\n\nOnly walnuts", Prompt("Only walnuts", ["nuts"])),
        (TASK, Prompt("Crack it.", [])),
        ("# Task Tool Invocation\n\nand nothing else", Prompt("# Task Tool Invocation\n\nand nothing else", [])),
    ],
)
def test_a_prompt_is_what_the_person_typed(text: str, prompt: Prompt) -> None:
    """And the skill that they chose."""
    assert prompt_of(text) == prompt


def test_reminders_stand_beside_a_prompt() -> None:
    """In blocks of their own, in older versions."""
    session = DroidSession().message("user", [text_block(REMINDER), text_block(REMINDER), text_block("Which nut?")])
    assert said(session) == [("user", "Which nut?")]
    assert said(DroidSession().message("user", [text_block(REMINDER)])) == []


def test_what_the_program_says_is_not_the_persons() -> None:
    """To the model alone, to the person alone, to both; that a skill was chosen is told again, to the model."""
    session = DroidSession().context()
    session.user("Request interrupted by user", visibility="llm_only")
    session.user("402 Subscribe", visibility="user_only").user("Error: 403", visibility="both")
    session.user('Skill "nuts" activated: Only walnuts', visibility="user_only")
    session.message("system", [text_block("The session was moved.")], visibility="user_only")
    given = [record for record in records(of(session)) if isinstance(record, Message)]
    assert [(record.role, record.text) for record in given] == [
        ("custom", "402 Subscribe"),
        ("custom", "Error: 403"),
        ("custom", "The session was moved."),
    ]
    assert not any(record.prompt for record in given)


def test_what_a_person_types_may_be_seen_by_both() -> None:
    """It was typed in some mode."""
    assert said(DroidSession().user("Which nut?", visibility="both", interactionMode="auto")) == [
        ("user", "Which nut?")
    ]


def test_a_picture_alone_is_a_prompt() -> None:
    session = DroidSession().message("user", [{"type": "image", "source": {"type": "base64", "data": "x"}}])
    (record,) = records(of(session))
    assert isinstance(record, Message)
    assert (record.prompt, record.text) == (True, "")


# -- calls


@pytest.mark.parametrize(
    ("block", "given"),
    [
        ({"content": "x"}, ("x", False)),
        ({"content": "x\n\n\n[Process exited with code 0]"}, ("x", False)),
        ({"content": "x\n[Process exited with code 3]\n"}, ("x", True)),
        ({"content": "x [Process exited with code 3] y"}, ("x [Process exited with code 3] y", False)),
        ({"content": "Error: Command failed (exit code: 1)\nx"}, ("Error: Command failed (exit code: 1)\nx", True)),
        ({"content": "x", "is_error": True}, ("x", True)),
        ({"content": [{"type": "text", "text": "x"}, {"type": "image"}]}, ("x", False)),
        ({}, ("", False)),
    ],
)
def test_how_a_call_went(block: dict[str, Any], given: tuple[str, bool]) -> None:
    session = DroidSession().answer(calls=(LS,))
    session.message("user", [{"type": "tool_result", "tool_use_id": LS.key, **block}])
    result = next(operation for operation in of(session) if isinstance(operation, ToolResult))
    assert (result.text, result.is_error) == given


def test_a_command_of_the_persons_is_theirs() -> None:
    """Only they see it."""
    session = DroidSession().answer(calls=(LS,), visibility="user_only").result(LS, "walnut")
    (call,) = records(of(session))
    assert isinstance(call, ToolCall)
    assert (call.role, call.name) == ("user", "Execute")


def test_our_own_tools_are_not_searched() -> None:
    """Under a server's name."""
    session = DroidSession().answer(calls=(Call("sesame___search_sessions", {"query": "nut"}, "a"), LS))
    assert [call.hidden for call in records(of(session))] == [True, False]


# -- forks, subagents


def test_a_fork_has_its_parents_records_and_began_after_them() -> None:
    """So that the copies are shown as the parent's."""
    session = (
        DroidSession().context().user("Which nut?").tool("Execute", {"command": "ls"}, "walnut", 0).answer("This.")
    )
    child = session.fork().user("And this?")
    assert keys(of(child))[:-1] == keys(of(session))
    assert facts(of(child), "parent_id") == [(session.id, 0)]
    assert facts(of(child), "subagent") == []
    (began,) = facts(of(child), "began")
    times = [record.time_ms for record in records(of(session))]
    assert int(began[0]) == times[-1]
    assert facts(of(session), "began") == []


def test_a_subagent_is_below_its_parent() -> None:
    child = DroidSession(title="Worker: Crack", callingSessionId="parent", callingToolUseId="call_a").user(TASK)
    assert facts(of(child), "parent_id") == [("parent", 0)]
    assert facts(of(child), "subagent") == [("1", 0)]
    assert said(child) == [("user", "Crack it.")]


def test_two_sessions_share_no_record_even_with_poor_ids() -> None:
    """Converters number messages, and leave out times."""
    lines = DroidSession().user("go on").user("go on").lines()
    poor = [
        lines[0],
        *(line.split(b'"id":')[0] + b'"id":"m1","message":' + line.split(b'"message":')[1] for line in lines[1:]),
    ]
    other = [line.replace(ID.encode(), b"other") for line in poor]
    found = keys(steps(poor, "a.jsonl"))
    assert len(set(found)) == 2
    assert not set(found) & set(keys(steps(other, "a.jsonl")))


@pytest.mark.parametrize(("kind", "kept"), [("llm_summary", 1), (None, 1), ("provider_switch_serialization", 0)])
def test_a_summary_is_kept_and_a_copy_of_the_talk_is_not(kind: str | None, kept: int) -> None:
    session = DroidSession().line(
        "compaction_state", summaryText="Nuts were cracked.", summaryKind=kind, removedCount=3
    )
    assert [role for role, _ in said(session)] == ["summary"] * kept


def test_messages_know_their_parents() -> None:
    """Where that is not the one before."""
    session = DroidSession().user("one").answer("two").user("three")
    back = session.lines()[-1].replace(
        session.last.encode() if session.last else b"", b"d1010000-0000-4000-8000-0000000000aa"
    )
    session.raw(back)
    parents = [record.parent for record in records(of(session))]
    assert parents[:3] == [None] * 3
    assert parents[3] is not None


def test_the_facts_are_of_this_session_alone() -> None:
    assert all(fact.native_id is None for fact in of(DroidSession().user("x")) if isinstance(fact, Fact))
