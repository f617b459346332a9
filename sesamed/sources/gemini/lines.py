"""The parts of Gemini CLI's files that are read: flat views with the few fields that are needed, what a
person said in their texts, and what a call returned.

A line is a header, a message, a patch (`$set`) or a rewind; a file of the older kind is a header with all messages in it. Fields that are
not listed here (thoughts, tokens, schemas) are skipped by the decoder.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sesamed.calls import value_text
from sesamed.sources.lines import FAILURES, decode_part
from sesamed.sources.records import Time


class FunctionCall(msgspec.Struct, gc=False):
    """A call as the API has it; after a resume that is all that is left of it."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class FunctionResponse(msgspec.Struct, gc=False):
    """What a call returned."""

    id: str | None = None
    name: str | None = None
    response: msgspec.Raw = msgspec.Raw(b"null")


class Part(msgspec.Struct, gc=False, rename="camel"):
    """A part of a message's content."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: msgspec.Raw = msgspec.Raw()
    file_data: msgspec.Raw = msgspec.Raw()


Content = str | Part | list[Part | str] | None


class Call(msgspec.Struct, gc=False, rename="camel"):
    """A call, with its result when it has ended. `description` may be the tool's whole documentation, so it is not read."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    result: Content = None
    result_display: msgspec.Raw = msgspec.Raw(b"null")
    status: str | None = None
    timestamp: Time = None  # when it ended


class Entry(msgspec.Struct, gc=False, rename="camel"):
    """A message. It is written again, with the same id, when part of it changes."""

    id: str | None = None
    type: str = ""
    timestamp: Time = None
    content: Content = None
    display_content: Content = None
    tool_calls: list[Call] | None = None


class Patch(msgspec.Struct, gc=False):
    """Changed fields of the header; `messages` is everything that the model is shown from then on."""

    summary: str | None = None
    directories: list[str] | None = None
    messages: list[Entry] | None = None


class Line(Entry, gc=False, rename="camel"):
    """Any line, and a whole file of the older kind."""

    session_id: str | None = None
    project_hash: str | None = None
    start_time: Time = None
    kind: str | None = None
    directories: list[str] | None = None
    summary: str | None = None
    messages: list[Entry] | None = None
    patch: Patch | None = msgspec.field(default=None, name="$set")
    rewind_to: str | None = msgspec.field(default=None, name="$rewindTo")


class Projects(msgspec.Struct, gc=False):
    """`projects.json`: the directories that Gemini CLI was used in."""

    projects: dict[str, msgspec.Raw] = {}


DECODE_PROJECTS: Final = msgspec.json.Decoder(Projects).decode


STARTS = re.compile(r'\{"(?:id|sessionId|\$set|\$rewindTo)": ?["{]')


def parts_of(content: Content) -> list[Part]:
    """The parts of a content, in any of the forms that it has."""
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [Part(text=item) if isinstance(item, str) else item for item in items]


ANYTHING: Final = msgspec.json.Decoder().decode

CONTEXT: Final = "<session_context>"
HOOK: Final = "<hook_context>"
# What the program writes in the user's name: the context of a chat, the state of the editor, reminders to the model.
INJECTED: Final = (
    CONTEXT,
    HOOK,
    "This is the Gemini CLI. We are setting up the context for our chat.",
    "Here is the user's editor context as ",
    "Here is a summary of changes in the user's editor context",
    "System: Potential loop detected.",
    "You have stopped calling tools without finishing.",
    "You have exceeded the time limit. You have one final chance",
    "You have exceeded the maximum number of turns. You have one final chance",
)
CONTINUE: Final = "Please continue."
ACKNOWLEDGED: Final = "Got it. Thanks for the additional context!"  # the reply to a summary, not by the model either
SNAPSHOT: Final = "<state_snapshot>"
COMMANDS: Final = ("/", "?")

REFERENCES: Final = re.compile(r"--- Content from referenced files ---.*?(?:--- End of content ---|\Z)", re.DOTALL)
SHELL: Final = re.compile(
    r"I ran the following shell command:\n```sh\n(?P<command>.*?)\n```\n\nThis produced the following result:\n```\n(?P<output>.*)\n```",
    re.DOTALL,
)
ESCAPED: Final = re.compile(r"\\([\\`])")
DIRECTORIES: Final = re.compile(
    r"(?:\*\*Workspace Directories:\*\*|I'm currently working in the following directories:)\n(?P<list>(?:[ \t]+- [^\n]+\n?)+)"
    r"|I'm currently working in the directory: (?P<one>[^\n]+)"
)

UNTRUSTED: Final = re.compile(r"<untrusted_context>\n(.*)\n</untrusted_context>\s*", re.DOTALL)
GROUP: Final = "Process Group PGID: "  # the last line inside that
# Lines that follow the output of a shell command. Newer versions leave out an exit code of 0.
ENDING: Final = re.compile(r"(Exit Code|Signal|Background PIDs|Process Group PGID): (.*)")
ENDINGS: Final = 4
FAILED: Final = re.compile(r"(?:\A|\n\n)Command (?:exited with code (?!0\.)|terminated by signal: )")
FAILED_CHARS: Final = 1024
FINE: Final = ("0", "(none)")


def text_of(parts: Sequence[Part]) -> str:
    """The text parts of a message, joined by newlines; thoughts are left out."""
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def prompt_of(parts: Sequence[Part]) -> str:
    """What the user wrote, without the content of files named by `@` and without hooks' additions; empty if the program wrote it."""
    own = [part for part in parts if part.text and not part.text.lstrip().startswith(HOOK)]
    text = REFERENCES.sub("", text_of(own)).strip()
    return "" if text == CONTINUE or text.startswith(INJECTED) else text


def directories_of(parts: Sequence[Part]) -> list[str]:
    """The workspace directories listed in a context message; none in other messages."""
    text = text_of(parts).lstrip()
    found = DIRECTORIES.search(text) if text.startswith(INJECTED) else None
    if found is None:
        return []
    if found["one"]:
        return [found["one"].strip()]
    return [line.strip().removeprefix("- ") for line in found["list"].splitlines()]


def command_of(text: str) -> tuple[str, str] | None:
    """The command that the user ran with `!`, and its output; None if this is something else."""
    found = SHELL.fullmatch(text.strip())
    return None if found is None else (ESCAPED.sub(r"\1", found["command"]), ESCAPED.sub(r"\1", found["output"]))


def is_failed_command(output: str) -> bool:
    """Whether the output of a command that the user ran begins by saying that it failed."""
    return FAILED.search(output[:FAILED_CHARS]) is not None


def output_of(parts: Sequence[Part]) -> tuple[str, bool] | None:
    """The text of a call's result, and whether the result is an error; None if there is no result."""
    answers = [part.function_response for part in parts if part.function_response is not None]
    if not answers:
        text = text_of(parts)
        return (text, False) if text else None
    outputs = [_response(bytes(answer.response)) for answer in answers]
    return "\n".join(text for text, _ in outputs), any(failed for _, failed in outputs)


def display_of(raw: msgspec.Raw) -> str:
    """What the terminal showed as a call's result, if that is plain text."""
    value = _decode(bytes(raw))
    return value if isinstance(value, str) else ""


def unwrap(text: str) -> str:
    """An output without the wrapper that is for the model only."""
    found = UNTRUSTED.fullmatch(text) if text.startswith("<") else None
    output = found[1] if found else text
    before, newline, last = output.rstrip().rpartition("\n")
    return before if newline and last.startswith(GROUP) else output


def is_failure(output: str) -> bool:
    """Whether a shell command's output ends with an exit code other than 0, or with a signal."""
    ending: dict[str, str] = {}
    for line in reversed(output.rstrip().rsplit("\n", ENDINGS)[-ENDINGS:]):
        found = ENDING.fullmatch(line)
        if found is None:
            break
        ending[found[1]] = found[2]
    return any(ending.get(name, "0") not in FINE for name in ("Exit Code", "Signal"))


def _response(raw: bytes) -> tuple[str, bool]:
    value = _decode(raw)
    if not isinstance(value, dict):
        return _as_text(value), False
    if value.get("error"):
        return _as_text(value["error"]), True
    return _as_text(value.get("output", value)), False


def _as_text(value: Any) -> str:
    if value is None or value == {}:
        return ""
    return value_text(value)


def _decode(raw: bytes) -> Any:
    try:
        return decode_part(ANYTHING, raw)
    except FAILURES:
        return None
