"""Making messages and calls: what is the same for all agents."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sesamed.model import Message, Role, ToolCall, ToolResult
from sesamed.sources.calls import OpenCall
from sesamed.sources.own_tools import is_own_call


class Block(Protocol):
    """A part of a message's content."""

    type: str
    text: str | None


class Place(msgspec.Struct, frozen=True, gc=False):
    """What the records of one line have in common."""

    entry: str | None = None
    parent: str | None = None
    time_ms: int | None = None
    cwd: str | None = None
    ordinal: int | None = None
    stamp: str = ""  # what their keys begin with, where that is not from the state
    side: bool = False  # a subagent's line within its parent's file

    def message(self, key: int, role: Role, text: str, *, prompt: bool = False, hidden: bool = False) -> Message:
        """Something was said."""
        return Message(
            key=key,
            role=role,
            text=text,
            entry=self.entry,
            parent=self.parent,
            time_ms=self.time_ms,
            prompt=prompt,
            hidden=hidden,
            ordinal=self.ordinal,
        )

    def call(
        self,
        key: int,
        name: str,
        arguments: bytes = b"{}",
        *,
        tool: str | None = None,  # the name without its server's
        output: str | None = None,
        is_error: bool | None = None,
    ) -> ToolCall:
        """The model called a tool. With an output, no result follows; a result whose call is not known is made like this, too."""
        return ToolCall(
            key=key,
            name=name,
            arguments=arguments,
            cwd=self.cwd,
            entry=self.entry,
            parent=self.parent,
            time_ms=self.time_ms,
            output=output,
            is_error=is_error,
            hidden=is_own_call(name if tool is None else tool, arguments),
            ordinal=self.ordinal,
        )

    def command(self, key: int, name: str, arguments: bytes, *, output: str | None, is_error: bool | None) -> ToolCall:
        """The person ran a command."""
        call = self.call(key, name, arguments, output=output, is_error=is_error)
        return msgspec.structs.replace(call, role="user")

    def result(self, call: OpenCall, text: str, *, is_error: bool) -> ToolResult:
        """The result of an open call."""
        return ToolResult(key=call.key, text=text, is_error=is_error, time_ms=self.time_ms, hidden=call.hidden)


def join_texts(content: str | Sequence[Block] | None) -> str:
    """The text of a message: its text blocks, one after the other."""
    if isinstance(content, str):
        return content
    return "\n".join([block.text for block in content or () if block.type == "text" and block.text])


def link_parent(parent: str | msgspec.UnsetType | None, last: str | None) -> str | None:
    """The parent to store: None if it is the line before, the empty string if the line begins another tree."""
    if parent is msgspec.UNSET or parent == last:
        return None
    return parent or ""
