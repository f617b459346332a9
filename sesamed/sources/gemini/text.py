"""What of Gemini CLI's texts was said by whom. Pure text and parts."""

import re
from typing import Final

import msgspec

from sesamed.sources.gemini.lines import Content, FunctionResponse
from sesamed.sources.lines import FAILURES

UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
CONTEXT: Final = "<session_context>", "This is the Gemini CLI. We are setting up the context for our chat."
# In the user's name, and not the user's words.
INJECTED: Final = (*CONTEXT, "<hook_context>", "You have stopped calling tools without finishing.")
ACKNOWLEDGED: Final = "Got it. Thanks for the additional context!"  # the model's answer to a summary, by the program
SUMMARY: Final = "<state_snapshot>"  # of a history that was compressed
# The directories, as a list or as one.
LISTED: Final = re.compile(
    r"(?:\*\*Workspace Directories:\*\*|working in the following directories:)\n((?:[ \t]+- [^\n]+\n?)+)"
)
WORKING_IN: Final = re.compile(r"I'm currently working in the directory: ([^\n]+)")
SHELL: Final = re.compile(
    r"I ran the following shell command:\n```sh\n(.*?)\n```\n\nThis produced the following result:\n```\n(.*?)\n?```\s*",
    re.DOTALL,
)
WRAPPER: Final = re.compile(
    r"\A<untrusted_context>\n|\n?</untrusted_context>\s*\Z|^Process Group PGID: .*\n?", re.MULTILINE
)
EXIT: Final = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)


class Given(msgspec.Struct, gc=False):
    """What a tool gave back."""

    output: str | None = None
    error: str | None = None


def text_of(content: Content) -> str:
    """What a message says: its texts, one after the other, without thoughts."""
    if isinstance(content, str):
        return content
    return "\n".join([part.text for part in content or () if part.text and not part.thought])


def is_injected(text: str) -> bool:
    """Whether the program wrote this in the user's name."""
    return text.lstrip().startswith(INJECTED)


def is_context(text: str) -> bool:
    """Whether this tells the model where it is: once in each session, and when it is resumed."""
    return text.lstrip().startswith(CONTEXT)


def directories_of(context: str) -> list[str]:
    """The directories that the context names."""
    listed = LISTED.search(context)
    if listed is not None:
        return [line.strip().removeprefix("- ") for line in listed[1].splitlines()]
    found = WORKING_IN.search(context)
    return [found[1].strip()] if found else []


def output_of(response: FunctionResponse) -> tuple[str, bool]:
    """What a call gave back, without what it is wrapped in, and whether it failed: a shell's failure is in its text only."""
    raw = bytes(response.response)
    try:
        given = msgspec.json.decode(raw, type=Given)
    except FAILURES:
        given = Given()
    whole = "" if raw in (b"null", b"{}") else raw.decode("utf-8", "replace")
    text = given.output if given.output is not None else given.error if given.error is not None else whole
    text = WRAPPER.sub("", text).strip("\n")
    code = EXIT.search(text)
    return text, given.error is not None or (code is not None and code[1] != "0")
