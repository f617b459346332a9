"""What stands in Aider's history: Markdown, of which every line says by its beginning and its end whose it is.

Lines of a prompt begin with `#### `, those of the program with `> `; both end with two spaces, which what a model quotes does not. A text
of the program's may have several lines, of which only the first has the beginning and only the last the end. All others are the answer's.
There are no calls: what the program says that it did is made into some.
"""

import re
from typing import Final, Literal

import msgspec

from sesamed.model import NameRank, Operation, record_key
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import Place

PROMPT: Final = "#### "
SAID: Final = "> "  # by the program
END: Final = "  "
KEPT_CHARS: Final = 1 << 20  # of what is said at once; less of it is indexed
BLOCK: Final = 256  # lines

Kind = Literal["", "prompt", "answer", "said", "report"]

QUESTION: Final = "(Y)es/(N)o"  # in each one of the program's
COMMIT: Final = re.compile(r"Commit ([0-9a-f]{7,40}) (.*)", re.DOTALL)
ERROR: Final = re.compile(r"litellm\.\w*(?:Error|Exception|Timeout)\b")
EDITED: Final = "Applied edit to "
RUNNING: Final = "Running "
NO_EDIT: Final = "The LLM did not conform to the edit format."
LINTED: Final = "# Fix any errors below, if possible."
TO_FIX: Final = {"Attempt to fix test errors?": "test", "Attempt to fix lint errors?": "lint"}
RUNS: Final = {"/run": "", "/test": "", "/git": "git "}  # with a command of the person's
ASKS: Final = frozenset({"/ask", "/code", "/architect", "/context", "/help", "/ok"})  # with a prompt


class AiderState(msgspec.Struct, frozen=True, kw_only=True):
    """What the lines so far mean for the next one. Never changed in place."""

    named: str = ""  # what the session's id ends with
    session: str = ""
    cwd: str | None = None
    kind: Kind = ""  # of what is not over yet, and its lines
    blocks: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()  # after those in blocks
    size: int = 0
    is_open: bool = False  # a text of the program's that goes on
    follows_blank: bool = False
    is_asked: bool = (
        False  # before the first prompt there is no answer, but what the program was started with, keys included
    )
    about: str = ""  # the tool that the last report is about
    asked: str = ""  # with a command, which the program then says again
    records: int = 0
    is_named: bool = False


Step = tuple[AiderState, list[Operation]]


def read_line(state: AiderState, line: str) -> Step:
    """A line of a session."""
    is_blank = not line.strip()
    if state.is_open:
        return msgspec.structs.replace(_keep(state, line, is_open=not line.endswith(END)), follows_blank=False), []
    found: list[Operation] = []
    if line.startswith(PROMPT) and line.endswith(END):
        if state.kind != "prompt" or state.follows_blank:
            state, found = flush(state)
        state = msgspec.structs.replace(state, kind="prompt", is_asked=True)
        state = _keep(state, line.removeprefix(PROMPT).rstrip())
    elif line.startswith(SAID) and (line.endswith(END) or not _may_be_answer(state)):
        state, found = _read_said(state, line)
    elif state.is_asked and (not is_blank or state.kind == "answer"):
        if state.kind != "answer":
            state, found = flush(state)
        state = _keep(msgspec.structs.replace(state, kind="answer"), line)
    return msgspec.structs.replace(state, follows_blank=is_blank), found


def _may_be_answer(state: AiderState) -> bool:
    """Whether the next line may be quoted by the model: an answer follows a blank line."""
    return state.kind == "answer" or (state.is_asked and state.follows_blank)


def _read_said(state: AiderState, line: str) -> Step:
    """A line of the program's. One that is open goes on in the next lines."""
    text, is_open = line.removeprefix(SAID), not line.endswith(END)
    found: list[Operation] = []
    if state.kind != "report" or _begins_anew(text):
        state, found = flush(state)
        state = msgspec.structs.replace(state, kind="said")
    state = _keep(state, text, is_open=is_open)
    if not is_open and state.kind == "said":
        state, more = flush(state)
        found += more
    return state, found


def _begins_anew(text: str) -> bool:
    """Whether what the program says is not of the report that it gave so far."""
    return text.startswith((EDITED, RUNNING, "Tokens: ", *TO_FIX)) or COMMIT.match(text) is not None


def _keep(state: AiderState, line: str, *, is_open: bool = False) -> AiderState:
    """One line more. Of a text without end the rest is left out."""
    state = msgspec.structs.replace(state, is_open=is_open)
    if state.size > KEPT_CHARS:
        return state
    size, lines = state.size + len(line) + 1, (*state.lines, line)
    if len(lines) < BLOCK:
        return msgspec.structs.replace(state, lines=lines, size=size)
    return msgspec.structs.replace(state, blocks=(*state.blocks, "\n".join(lines)), lines=(), size=size)


def flush(state: AiderState) -> Step:
    """What is over: its lines together."""
    text, kind = "\n".join((*state.blocks, *state.lines)), state.kind
    over = msgspec.structs.replace(state, kind="", blocks=(), lines=(), size=0, is_open=False)
    if kind == "prompt":
        return _read_prompt(over, text)
    if kind == "answer":
        return _say(over, "assistant", text.strip("\n"))
    if kind == "said":
        return _read_event(over, text.strip())
    if kind == "report":
        return _report(over, text)
    return over, []


# -- what the person says


def _read_prompt(state: AiderState, text: str) -> Step:
    """A prompt; or a command, which may have a prompt. The program says that once more when it asks."""
    if not text.strip() or text == "<blank>" or _is_answered(text):
        return state, []
    asked, state = state.asked, msgspec.structs.replace(state, asked="", about="")
    if text.startswith("!"):
        return _run(state, text[1:])
    command, _, given = text.partition(" ")
    if command in RUNS and given.strip():
        return _run(state, RUNS[command] + given)
    if command in ASKS and given.strip():
        state, found = _say(state, "user", text, prompt=True, name=given)
        return msgspec.structs.replace(state, asked=given.strip()), found
    if text.startswith("/") and command[1:].replace("-", "").isalpha():
        return _say(state, "user", text)
    return (state, []) if text.strip() == asked else _say(state, "user", text, prompt=True, name=text)


def _is_answered(text: str) -> bool:
    """Whether this is a question of the program's, with the answer."""
    question, _, answer = text.rpartition("]:")
    return "\n" not in text and QUESTION in question and (not answer.strip() or answer.strip().isalnum())


def _run(state: AiderState, command: str) -> Step:
    """A command that the person ran. Neither what it printed nor how it ended is kept."""
    state, key = _next(state)
    arguments = msgspec.json.encode({"command": command.strip()})
    return state, [_place(state).command(key, "run", arguments, output=None, is_error=None)]


def _say(
    state: AiderState, role: Literal["user", "assistant", "custom"], text: str, *, prompt: bool = False, name: str = ""
) -> Step:
    if not text.strip():
        return state, []
    state, key = _next(state)
    found: list[Operation] = [_place(state).message(key, role, text, prompt=prompt)]
    if prompt and not state.is_named and (fact := prompt_fact(name)) is not None:
        state = msgspec.structs.replace(state, is_named=fact.rank == NameRank.PROMPT)
        found.append(fact)
    return state, found


# -- what the program did


def _read_event(state: AiderState, text: str) -> Step:
    """What the program says; most of it is about itself, and the first lines may hold keys."""
    if text.startswith(EDITED):
        return _call(state, "edit", {"path": text.removeprefix(EDITED)}, is_error=False)
    if text.startswith(RUNNING):
        return _call(state, "run", {"command": text.removeprefix(RUNNING)})
    if commit := COMMIT.fullmatch(text):
        return _call(state, "commit", {"message": commit[2], "hash": commit[1]}, is_error=False)
    for question, tool in TO_FIX.items():
        if text.startswith(question):
            is_told, state = state.about == tool, msgspec.structs.replace(state, about="")
            return (state, []) if is_told else _call(state, tool, {}, is_error=True)
    if text in (NO_EDIT, LINTED):
        about = "edit" if text == NO_EDIT else "lint"
        return msgspec.structs.replace(state, kind="report", about=about), []
    return _say(state, "custom", text) if ERROR.match(text) else (state, [])


def _report(state: AiderState, text: str) -> Step:
    """What went wrong."""
    return _call(state, state.about, {}, output="\n".join(line.rstrip() for line in text.split("\n")), is_error=True)


def _call(
    state: AiderState, tool: str, arguments: dict[str, str], *, output: str | None = None, is_error: bool | None = None
) -> Step:
    state, key = _next(state)
    call = _place(state).call(key, tool, msgspec.json.encode(arguments), output=output, is_error=is_error)
    return state, [call]


def _next(state: AiderState) -> tuple[AiderState, int]:
    """The key of the next record: there is nothing to know it by but its number."""
    key = record_key(f"aider\0{state.session}", str(state.records))
    return msgspec.structs.replace(state, records=state.records + 1), key


def _place(state: AiderState) -> Place:
    return Place(cwd=state.cwd)
