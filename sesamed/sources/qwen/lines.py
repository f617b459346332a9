"""The parts of Qwen Code's lines that are read: flat views; what a message holds is as with Gemini CLI, of which this is a fork."""

import re
from typing import Final

import msgspec

from sesamed.sources.gemini.lines import Part
from sesamed.sources.lines import FAILURES, LenientDecoder, decode_part
from sesamed.sources.records import ID_CHARS, OpenCall, Short, Time


class Said(msgspec.Struct, gc=False):
    """The `message` of a line, as the API has it."""

    parts: list[Part] | None = None


class Result(msgspec.Struct, gc=False, rename="camel"):
    """What the program knows of a call's result, beside the message."""

    status: str | None = None
    result_display: msgspec.Raw = msgspec.Raw(b"null")


class Display(msgspec.Struct, gc=False):
    """What the terminal showed as a result, where that is an object."""

    status: str | None = None


DISPLAY: Final = LenientDecoder(Display)


class Payload(msgspec.Struct, gc=False, rename="camel"):
    """What is beside a message, or all that a line of the program's says."""

    display_text: str | None = None  # what the person typed
    custom_title: str | None = None
    title_source: str | None = None
    parent_session_id: str | None = None
    compressed_history: list[Said] | None = None


class Forked(msgspec.Struct, gc=False, rename="camel"):
    """The session that a line was copied from."""

    session_id: Short | None = None


class Line(msgspec.Struct, gc=False, rename="camel"):
    """Any line."""

    uuid: str | None = None
    parent_uuid: str | msgspec.UnsetType | None = msgspec.UNSET
    session_id: str | None = None
    timestamp: Time = None
    type: str = ""
    subtype: str | None = None
    provenance: str | None = None
    cwd: Short | None = None
    git_branch: Short | None = None
    message: Said | None = None
    tool_call_result: Result | None = None
    system_payload: Payload | None = None
    forked_from: Forked | None = None


class Meta(msgspec.Struct, gc=False, rename="camel"):
    """What stands beside a subagent's file."""

    agent_id: str | None = None
    description: str | None = None
    parent_agent_id: str | None = None


DECODE_META: Final = msgspec.json.Decoder(Meta).decode


class Turn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A prompt: what it follows, by which the program names the point that the person goes back to."""

    after: str
    key: int


class QwenState(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier lines mean for the next one. Never changed in place."""

    file_id: str
    is_meta: bool = False
    parent: str = ""  # the session that a subagent works for
    known: bool = False
    dated: bool = False
    named: bool = False
    cwd: str | None = None
    branch: str | None = None
    forked: str | None = None
    last: str | None = None  # the uuid of the line before
    nameless: int = 0  # lines without one so far
    turns: tuple[Turn, ...] = ()  # the last ones
    calls: dict[str, OpenCall] = {}  # by the id of the call, oldest first


STARTS: Final = re.compile(r'\{"uuid": ?"')
CONTEXT: Final = ("<qwen:user-prompt-submit-context>", "</qwen:user-prompt-submit-context>")  # what a hook added
# What stands around what a command wrote, which is looked for from both ends: a pattern of the whole tries every place of each mark.
BEFORE_OUTPUT: Final = re.compile(r"Command: .*?\nDirectory: [^\n]*\nOutput: ", re.DOTALL)
BEHIND_OUTPUT: Final = re.compile(r"[^\n]*(?:\n[A-Z][^\n]*)*")
NOTHING: Final = ("(empty)", "(none)")
IN_BACKGROUND: Final = "background"


def parts_of(line: Line) -> list[Part]:
    """What a message holds, without what a hook has put behind it."""
    parts = [] if line.message is None else line.message.parts or []
    last = (parts[-1].text or "").strip() if len(parts) > 1 else ""
    return parts[:-1] if last.startswith(CONTEXT[0]) and last.endswith(CONTEXT[1]) else parts


def output_of_shell(text: str) -> str:
    """What a command wrote, without what stands around it for the model."""
    begin = BEFORE_OUTPUT.match(text)
    written, _, behind = text[begin.end() if begin else 0 :].rpartition("\nExit Code: ")
    output, is_told, error = written.rpartition("\nError: ")
    if begin is None or not is_told or not BEHIND_OUTPUT.fullmatch(behind):
        return text
    return "\n".join(part for part in (output, error) if part not in NOTHING)


def goes_on(result: Result | None) -> bool:
    """Whether a call has only begun something, and its result comes later."""
    raw = b"" if result is None else bytes(result.result_display)
    if raw[:1] != b"{" or IN_BACKGROUND.encode() not in raw:
        return False
    try:
        return decode_part(DISPLAY.decode, raw).status == IN_BACKGROUND
    except FAILURES:
        return False


def advance(state: QwenState, line: Line) -> QwenState:
    """The state after a line."""
    is_known = line.uuid and len(line.uuid) <= ID_CHARS
    return msgspec.structs.replace(
        state, last=line.uuid if is_known else state.last, nameless=state.nameless + (not line.uuid)
    )
