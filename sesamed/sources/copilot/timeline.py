"""The first sessions of Copilot CLI: a document with what the person saw (`timeline`) and what the model was sent (`chatMessages`). Newer
versions take such a session over as one event of theirs.

The timeline has the times, the ids and what failed; the model's messages have the results whole, which are cut in the timeline.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from sesamed.calls import strip_server
from sesamed.model import Fact, NameRank, Operation, Role, Unknown, record_key
from sesamed.sources.copilot.records import ENDED
from sesamed.sources.lines import EMPTY, LineDecoder, object_of
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import Place, Time, join_texts, millis, stamp_of, strip_exit

TRUSTED: Final = re.compile(r"Folder (.+) has been added to trusted folders\.", re.DOTALL)
ROLES: Final[dict[str, Role]] = {"user": "user", "copilot": "assistant", "error": "assistant", "compaction": "summary"}
CALLS: Final = frozenset({"tool_call_requested", "tool_call_completed"})
GROUPS: Final = frozenset({"group_tool_call_requested", "group_tool_call_completed"})
NOISE: Final = frozenset({"info", "warning", "reasoning", "handoff", "task_complete"})


class Outcome(msgspec.Struct, gc=False):
    """How a call ended: `success`, `failure`, `rejected` or `denied`."""

    type: str = ""
    log: str | None = None


class Entry(msgspec.Struct, gc=False, rename="camel"):
    """Something that the person saw."""

    type: str = ""
    id: str | None = None
    timestamp: Time = None
    text: str | None = None
    summary_content: str | None = None  # compaction
    call_id: str | None = None  # calls, and so are the others
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(EMPTY)
    result: Outcome | None = None
    timeline_entries: list["Entry"] | None = None


class Part(msgspec.Struct, gc=False):
    """A part of its content."""

    type: str = ""
    text: str | None = None


class ChatMessage(msgspec.Struct, gc=False):
    """Something that the model was sent; only results are read."""

    role: str = ""
    tool_call_id: str | None = None
    content: str | list[Part] | None = None


class History(msgspec.Struct, gc=False, rename="camel"):
    """A session."""

    session_id: str | None = None
    start_time: Time = None
    timeline: list[Entry] | None = None
    chat_messages: list[ChatMessage] | None = None


DOCUMENTS: Final = LineDecoder(History, re.compile(r"\{"))


def read_history(history: History) -> Iterator[Operation]:
    """What a session says, but for its id."""
    began = millis(history.start_time)
    if began is not None:
        yield Fact(field="began", value=str(began))
    yield from _read_facts(history)
    sent = [message for message in history.chat_messages or () if message.role == "tool"]
    results = {message.tool_call_id or "": join_texts(message.content) for message in sent}
    for number, entry in enumerate(_entries(history.timeline or ())):
        yield from _read_entry(_locate(history, entry, number), entry, results)


def find_trusted(text: str) -> str:
    """The directory that the person said may be trusted, as they began to work in it."""
    found = TRUSTED.fullmatch(text)
    return found[1] if found else ""


def _read_facts(history: History) -> Iterator[Operation]:
    for entry in history.timeline or ():
        if entry.type == "info" and (trusted := find_trusted(entry.text or "")):
            yield Fact(field="cwd", value=trusted)
            break
    for entry in history.timeline or ():
        name = prompt_fact(entry.text or "") if entry.type == "user" else None
        if name is not None:
            yield name
            if name.rank == NameRank.PROMPT:
                return


def _entries(timeline: "list[Entry] | tuple[()]") -> Iterator[Entry]:
    """The entries, and those in groups."""
    for entry in timeline:
        if entry.type in GROUPS:
            yield from entry.timeline_entries or ()
        else:
            yield entry


def _read_entry(place: Place, entry: Entry, results: Mapping[str, str]) -> Iterator[Operation]:
    if (role := ROLES.get(entry.type)) is not None:
        text = (entry.summary_content if role == "summary" else entry.text) or ""
        if text.strip():
            yield place.message(record_key(place.stamp, role), role, text, prompt=role == "user")
    elif entry.type in CALLS:
        key, arguments, name = record_key(place.stamp, "call"), object_of(bytes(entry.arguments)), entry.name or ""
        output, is_error = _output_of(entry, results)
        tool = strip_server(name.replace("-", "_"))
        yield place.call(key, name, arguments, tool=tool, output=output, is_error=is_error)
    elif entry.type not in NOISE:
        yield Unknown(type=f"timeline/{entry.type}")


def _output_of(entry: Entry, results: Mapping[str, str]) -> tuple[str | None, bool | None]:
    """Of a call that has not ended there is none."""
    if entry.result is None:
        return None, None
    text, is_error = strip_exit(results.get(entry.call_id or "") or entry.result.log or "", ENDED)
    return text, is_error or entry.result.type != "success"


def _locate(history: History, entry: Entry, number: int) -> Place:
    stamp = stamp_of(history.session_id or "", entry.id, entry.timestamp, number)
    return Place(entry=entry.id, time_ms=millis(entry.timestamp), stamp=f"copilot\0{stamp}")
