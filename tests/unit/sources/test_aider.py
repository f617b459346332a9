"""Aider's history: whose each line is, and what is made of it."""

import random
import time
from pathlib import Path, PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.model import Message, Operation, ToolCall
from sesamed.source import ForeignFileError, Lines, ShapeFinder
from sesamed.sources.aider import FILE, Aider
from sesamed.sources.aider.lines import KEPT_CHARS
from tests.support.aider import AiderChat
from tests.support.operations import facts, keys, records

AIDER = Aider()
(LINES,) = AIDER.shapes
GOLDEN = Path(__file__).parents[2] / "golden/aider/talk.chat.history.md"
PLACE = PurePath("/home/me/birds") / FILE


def read(lines: list[bytes], place: PurePath = PLACE, *, restarts: bool = False) -> list[Operation]:
    """What the lines of a session say, one after the other."""
    state, said = AIDER.begin(place)
    for line in lines:
        state, more = AIDER.step(state, line)
        if restarts:
            state = AIDER.thaw(AIDER.freeze(state))
        said += more
    return [*said, *AIDER.end(state)]


def of(chat: AiderChat) -> list[Operation]:
    return read(chat.bytes().lstrip(b"\n").split(b"\n")[:-1])


def said(chat: AiderChat) -> list[tuple[str, str]]:
    """The messages, each with its role."""
    return [(record.role, record.text) for record in records(of(chat)) if isinstance(record, Message)]


def calls(chat: AiderChat) -> list[tuple[str, str, bool | None]]:
    """The calls, with arguments and outcome."""
    found = [record for record in records(of(chat)) if isinstance(record, ToolCall)]
    return [(call.name, call.arguments.decode(), call.is_error) for call in found]


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        (FILE.encode(), True),
        (b"aider.chat.history.md", True),
        (b"README.md", False),
        (b".aider.input.history", False),
        (b"below/.aider.chat.history.md", False),
    ],
)
def test_which_files_are_read(path: bytes, is_read: bool) -> None:
    """Those at the top of a root: each project is one."""
    assert (ShapeFinder(AIDER.shapes).find(path) is LINES) == is_read


def test_each_start_begins_a_session() -> None:
    """Whatever an answer has in its headings."""
    assert isinstance(LINES, Lines)
    assert LINES.begins is not None
    chat = AiderChat().starts().user("a").answer("# aider chat\n# aider chat started at noon\n## x").starts()
    firsts = [line for line in chat.bytes().split(b"\n") if LINES.begins.match(line)]
    assert len(firsts) == 2


def test_a_file_that_is_none_of_aiders_is_foreign() -> None:
    """Somebody's notes may have such a name."""
    with pytest.raises(ForeignFileError):
        read([b"# Notes", b"", b"> quoted  "])


# -- the session


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_start_is_in_the_time_of_the_machine(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id says it as the file does."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        given = of(AiderChat().starts("2026-03-01 18:00:00"))
        (began, _) = facts(given, "began")[0]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert began == {"UTC": "1772388000000", "Asia/Tokyo": "1772355600000"}[zone]
    assert given[0].native_id.startswith("20260301-180000-")  # type: ignore[union-attr]  # an identity


def test_it_worked_where_the_file_lies() -> None:
    """If that has the name that Aider gives it; another one may lie anywhere."""
    lines = AiderChat().starts().bytes().lstrip().split(b"\n")
    assert facts(read(lines), "cwd") == [("/home/me/birds", 0)]
    assert facts(read(lines, PurePath("/home/me/all/chat.history.md")), "cwd") == []


def test_sessions_of_two_projects_differ() -> None:
    """They may begin in the same second; those of a project that was moved do not."""
    lines = AiderChat().starts().bytes().lstrip().split(b"\n")
    ids = [read(lines, PurePath(place) / FILE)[0] for place in ("/a/birds", "/b/birds", "/a/fish")]
    assert ids[0] == ids[1] != ids[2]


# -- whose a line is


def test_what_a_model_quotes_is_its_own() -> None:
    """Headings and quotations, also at the beginning; and a blank line ends nothing."""
    text = "> Note\n> well\n\n#### Heading\n\n> again\n\nThe end."
    assert said(AiderChat().starts().user("Why?").answer(text)) == [("user", "Why?"), ("assistant", text)]


def test_a_prompt_may_have_several_lines() -> None:
    """Two that come one after the other are two."""
    chat = AiderChat().starts().user("one\n\n  two\n#### three").user("four")
    assert said(chat) == [("user", "one\n\n  two\n#### three"), ("user", "four")]


def test_nothing_of_how_it_was_started_is_kept() -> None:
    """Keys may be there, on several lines."""
    chat = AiderChat().starts(flags="--openai-api-key sk-wren --message go\nsk-tit\n\nsk-owl").user("Why?")
    assert said(chat) == [("user", "Why?")]
    assert not any("sk-" in str(operation) for operation in of(chat))


def test_what_the_program_asks_is_no_prompt() -> None:
    """Nor is nothing."""
    chat = AiderChat().starts().user("").user("Add file to the chat? (Y)es/(N)o/(A)ll/(S)kip all [Yes]: a").user("Why?")
    assert said(chat) == [("user", "Why?")]


def test_a_text_without_end_is_cut() -> None:
    """And takes no longer than it has lines."""
    chat = AiderChat().starts().user("Why?").answer("wren and tit\n" * 100_000)
    (_, (_, answer)) = said(chat)
    assert KEPT_CHARS <= len(answer) < KEPT_CHARS + 100


# -- commands, and what was done


def test_a_command_with_a_prompt_is_one_prompt() -> None:
    """Aider says the prompt again when it asks."""
    assert said(AiderChat().starts().user("/ask why?").user("why?").answer("So.").user("why?")) == [
        ("user", "/ask why?"),
        ("assistant", "So."),
        ("user", "why?"),
    ]
    given = of(AiderChat().starts().user("/add a.txt").user("/ask Why does it sing?"))
    assert facts(given, "name")[0][0] == "Why does it sing?"
    assert [record.prompt for record in records(given) if isinstance(record, Message)] == [False, True]


@pytest.mark.parametrize(
    ("prompt", "command"), [("/run make", "make"), ("!make", "make"), ("/test make", "make"), ("/git diff", "git diff")]
)
def test_commands_of_the_persons_are_calls(prompt: str, command: str) -> None:
    """What they printed is nowhere."""
    (call,) = records(of(AiderChat().starts().user(prompt).says("Added 1 line of output to the chat.")))
    assert isinstance(call, ToolCall)
    assert (call.name, call.role, call.arguments) == ("run", "user", f'{{"command":"{command}"}}'.encode())


def test_edits_and_commits_are_calls() -> None:
    """Of a commit all of what it says."""
    chat = AiderChat().starts().user("go").answer("I edit.").edits("a/wren.py", "feat: wrens\n\nThey sing.")
    assert calls(chat) == [
        ("edit", '{"path":"a/wren.py"}', False),
        ("commit", '{"message":"feat: wrens\\n\\nThey sing.","hash":"043a742"}', False),
    ]
    assert all(call.cwd == "/home/me/birds" for call in records(of(chat)) if isinstance(call, ToolCall))


def test_what_failed_says_why() -> None:
    """An edit that does not fit, a linter; of a test that failed nothing is told, and of a model that did not answer the error."""
    chat = (
        AiderChat()
        .starts()
        .user("go")
        .answer("I edit.")
        .fails("# 1 block failed\n\n<<<<<<< SEARCH\ntit\n>>>>>>> REPLACE")
    )
    chat.answer("Again.").edits("a.py").says("# Fix any errors below, if possible.").says("a.py:1:1: F401")
    chat.says("Attempt to fix lint errors? (Y)es/(N)o [Yes]: y").answer("So.").edits("a.py")
    chat.says("Attempt to fix test errors? (Y)es/(N)o [Yes]: n").says("litellm.RateLimitError: slow down")
    failed = [call for call in records(of(chat)) if isinstance(call, ToolCall) and call.is_error]
    assert [call.name for call in failed] == ["edit", "lint", "test"]
    assert "SEARCH\ntit\n>>>>>>>" in (failed[0].output or "")
    assert failed[1].output == "a.py:1:1: F401"
    assert said(chat)[-1] == ("custom", "litellm.RateLimitError: slow down")


# -- whatever the lines are


LINE = st.sampled_from(GOLDEN.read_bytes().split(b"\n")) | st.binary(max_size=40)


@settings(deadline=None)
@given(st.lists(LINE, max_size=40))
def test_any_lines_are_read_and_a_restart_between_two_changes_nothing(lines: list[bytes]) -> None:
    """The first one is Aider's."""
    whole = [b"# aider chat started at 2026-03-01 09:00:00", *lines]
    assert read(whole) == read(whole, restarts=True)


@given(st.randoms(use_true_random=False))
def test_a_growing_session_gives_a_growing_list(mix: random.Random) -> None:
    """Of the last record the text may still grow; it is the same one."""
    lines = GOLDEN.read_bytes().lstrip().split(b"\n")
    short, long = sorted(mix.sample(range(1, len(lines) + 1), 2))
    before, after = keys(read(lines[:short])), keys(read(lines[:long]))
    assert after[: max(0, len(before) - 1)] == before[:-1]
