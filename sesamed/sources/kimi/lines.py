"""The parts of Kimi's lines that are read: one flat view for the two formats, which tell each other apart by `message` and `time`."""

import re
from typing import Final, Literal

import msgspec

from sesamed.sources.records import OpenCall, Short, Time


class Part(msgspec.Struct, gc=False):
    """A part of a content: text, or something else, such as a thought."""

    type: str = ""
    text: str | None = None


Content = str | list[Part] | None


class Function(msgspec.Struct, gc=False):
    """Kimi CLI: what a call calls; the arguments are JSON within JSON."""

    name: str | None = None
    arguments: str | None = None


class Returned(msgspec.Struct, gc=False):
    """Kimi CLI: what a call gave back; how a command ended is in `message`."""

    is_error: bool | None = None
    output: Content = None
    message: str | None = None


class Payload(msgspec.Struct, gc=False):
    """Kimi CLI: what a message holds, of any type."""

    user_input: Content = None
    type: str = ""  # of a part of an answer, and so is the next one
    text: str | None = None
    id: str | None = None
    function: Function | None = None
    tool_call_id: str | None = None
    return_value: Returned | None = None
    question: str | None = None
    response: str | None = None


class Origin(msgspec.Struct, gc=False, rename="camel"):
    """Kimi Code: who said something in the person's name."""

    kind: str = ""
    name: str | None = None
    phase: str | None = None
    is_error: bool | None = None
    trigger: str | None = None
    skill_name: str | None = None
    skill_args: str | None = None
    command_name: str | None = None
    command_args: str | None = None


class Message(msgspec.Struct, gc=False):
    """Kimi CLI: a type and a payload. Kimi Code: a message of the conversation."""

    type: str | None = None
    payload: Payload | None = None
    role: str | None = None
    content: Content = None
    id: str | None = None
    origin: Origin | None = None


class Result(msgspec.Struct, gc=False, rename="camel"):
    """Kimi Code: what a call gave back."""

    output: Content = None
    is_error: bool | None = None


class Event(msgspec.Struct, gc=False, rename="camel"):
    """Kimi Code: a step of the model's."""

    type: str = ""
    uuid: str | None = None
    part: Part | None = None
    tool_call_id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    result: Result | None = None


class Disclosure(msgspec.Struct, gc=False):
    """Kimi Code: what the model is told of the machine."""

    cwd: Short | None = None


class Line(msgspec.Struct, gc=False):
    """Any line."""

    type: str = ""
    protocol_version: str | None = None
    created_at: Time = None
    timestamp: Time = None  # Kimi CLI: in seconds
    time: Time = None  # Kimi Code
    message: Message | None = None
    event: Event | None = None
    summary: str | None = None
    count: int | None = None
    cwd: Short | None = None
    disclosed: Disclosure | None = msgspec.field(default=None, name="environmentDisclosure")
    session: str | None = msgspec.field(
        default=None, name="sessionId"
    )  # of the index of sessions, and so is the next one
    directory: str | None = msgspec.field(default=None, name="workDir")


class Agent(msgspec.Struct, gc=False, rename="camel"):
    """Kimi Code: an agent of a session, of which one is `main`."""

    parent_agent_id: str | None = None


class About(msgspec.Struct, gc=False, rename="camel"):
    """What stands beside a session: Kimi Code's names are in this style, Kimi CLI's in the other one."""

    id: str | None = None
    cwd: str | None = None
    work_dir: str | None = None
    created_at: Time = None
    title: str | None = None
    title_kind: str | None = None
    is_custom_title: bool | None = None
    forked_from: str | None = None
    agents: dict[str, Agent] | None = None
    custom_title: str | None = msgspec.field(default=None, name="custom_title")
    title_generated: bool | None = msgspec.field(default=None, name="title_generated")
    description: str | None = None  # of a subagent


class Directory(msgspec.Struct, gc=False):
    """Kimi CLI: a directory that it was used in, on this machine or on another one."""

    path: str | None = None
    kaos: str | None = None


class Directories(msgspec.Struct, gc=False):
    """`kimi.json`."""

    work_dirs: list[Directory] = []


class KimiState(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier lines mean for the next one. Never changed in place."""

    kind: Literal["talk", "about", "directories", "index"] = "talk"
    session: str = ""  # of a subagent its own, too
    known: bool = False
    dated: bool = False
    named: bool = False
    cwd: str | None = None
    prompts: tuple[int, ...] = ()  # keys of the last ones
    command: str | None = None  # what the person ran, until its output comes
    calls: dict[str, OpenCall] = {}  # by the id of the call, oldest first


STARTS: Final = re.compile(r'\{"(?:type|timestamp|message|turnId)": ?')


def text_of(content: Content) -> str:
    """The text parts of a content."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.type == "text" and part.text)
