"""Turns operations into rows: one chunk per message, per tool call and per result, as structured text, cleaned, cut and packed. No I/O.

All text work is done here, before the transaction.
"""

import os.path
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from sesamed.model import (
    Bad,
    Entry,
    Fact,
    Identity,
    Message,
    Operation,
    Outcome,
    ToolCall,
    ToolResult,
    Undone,
    Unknown,
)
from sesamed.sanitize import clean_line
from sesamed.store.ids import Kind, line_digest, path_key
from sesamed.store.rows import FileRows, OutcomeRow, RecordRow, Remark, ResultRow, Text, UndoneRow
from sesamed.store.sqlite import Packer
from sesamed.store.subwords import inner_words

KIND_OF_ROLE: Mapping[str, Kind] = {
    "user": Kind.USER,
    "assistant": Kind.ASSISTANT,
    "custom": Kind.CUSTOM,
    "summary": Kind.SUMMARY,
}
PATH_ARGUMENTS = frozenset(
    "path paths file files file_path filePath absolute_path filename target_file notebook_path old_path new_path".split()
)
PATCH_ARGUMENTS = frozenset("patch input diff patchText".split())
PATCH_HEADER = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?|--- (?:a/)?)(\S[^\t\r\n]*)", re.MULTILINE
)
MAX_TOUCHED = 64
MAX_PATH = 4096

_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])
_ENCODE = msgspec.json.Encoder().encode


class Chunking:
    """Turns operations into rows."""

    def __init__(self, max_chunk_bytes: int) -> None:
        self._max = max_chunk_bytes
        self._packer = Packer()
        self._take: Mapping[type, Callable[[FileRows, Any], None]] = {
            Message: lambda change, message: change.rows.append(self._message(message)),
            ToolCall: lambda change, call: change.rows.append(self._call(call)),
            ToolResult: lambda change, result: change.rows.append(self._result(result)),
            Outcome: _correct,
            Fact: _state,
            Identity: _identify,
            Entry: _enter,
            Undone: _undo,
            Unknown: _count_unknown,
            Bad: _count_bad,
        }

    def fill(self, change: FileRows, operations: Iterable[Operation]) -> None:
        """Add what a source said to the change."""
        for operation in operations:
            self._take[type(operation)](change, operation)

    def make_row(self, record: Message | ToolCall) -> RecordRow:
        """The row of one record."""
        return self._message(record) if isinstance(record, Message) else self._call(record)

    def _message(self, message: Message) -> RecordRow:
        kind = KIND_OF_ROLE[message.role]
        texts = self._texts(Kind.UNINDEXED if message.hidden else kind, message.text)
        return RecordRow(
            key=message.key,
            role=message.role,
            kind=kind,
            texts=tuple(texts),
            prompt=message.prompt,
            time_ms=message.time_ms,
            entry=_clean_or_none(message.entry),
            parent=_clean_or_none(message.parent),
            ordinal=message.ordinal,
        )

    def _call(self, call: ToolCall) -> RecordRow:
        arguments, name = decode_arguments(call.arguments), clean_line(clean(call.name))
        kind = Kind.UNINDEXED if call.hidden else Kind.CALL
        texts = [*self._texts(kind, call_text(name, arguments))]
        if call.output is not None and not call.hidden:
            texts += self._texts(Kind.RESULT, call.output)
        return RecordRow(
            key=call.key,
            role=call.role,
            kind=Kind.CALL,
            texts=tuple(texts),
            time_ms=call.time_ms,
            entry=_clean_or_none(call.entry),
            parent=_clean_or_none(call.parent),
            tool=name,
            is_error=call.is_error,
            touched=tuple(find_touched(arguments, call.cwd)),
            ordinal=call.ordinal,
        )

    def _result(self, result: ToolResult) -> ResultRow:
        texts = [] if result.hidden else [*self._texts(Kind.RESULT, result.text)]
        return ResultRow(result.key, texts[0] if texts else None, result.is_error)

    def _texts(self, kind: Kind, text: str) -> Iterator[Text]:
        """At most one chunk; none of nothing."""
        if text and not text.isspace():
            text = clean(cut(text, self._max))
            yield Text(kind, text, self._packer.pack(text), inner_words(kind, text))


def _identify(change: FileRows, identity: Identity) -> None:
    change.identity = Identity(native_id=clean(identity.native_id), origin=clean(identity.origin))


def _state(change: FileRows, fact: Fact) -> None:
    value = clean(fact.value)
    if fact.entry is None:
        change.facts.append(msgspec.structs.replace(fact, value=value, native_id=_clean_or_none(fact.native_id)))
        return
    digest = line_digest(change.source, fact.entry)
    change.remarks.append(Remark(entry=digest, field=fact.field, value=value, rank=fact.rank, keep=fact.keep))


def _enter(change: FileRows, entry: Entry) -> None:
    change.entries.append(line_digest(change.source, entry.id))


def _correct(change: FileRows, outcome: Outcome) -> None:
    change.rows.append(OutcomeRow(outcome.key, outcome.is_error))


def _undo(change: FileRows, undone: Undone) -> None:
    change.rows.append(UndoneRow(undone.key, undone.alone))


def _count_unknown(change: FileRows, _: Unknown) -> None:
    change.unknown_lines += 1


def _count_bad(change: FileRows, _: Bad) -> None:
    change.bad_lines += 1


def clean(text: str) -> str:
    """Text that SQLite, UTF-8 and JSON can all hold."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut(text: str, limit: int) -> str:
    """At most so many bytes of text, with a note if something was cut."""
    if len(text) * 4 <= limit:
        return text
    head = text[:limit].encode("utf-8", "surrogatepass")  # never all of it: it may have tens of MB
    if len(text) <= limit and len(head) <= limit:
        return text
    kept = head[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[… {len(text) - len(kept)} more characters are in the session file]"


def decode_arguments(arguments: bytes) -> dict[str, Any]:
    """A call's arguments; anything but an object is put under the key `arguments`."""
    try:
        return _ARGUMENTS.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {"arguments": arguments.decode("utf-8", "replace")}


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as structured text: `tool: bash`, `command: …`."""
    lines = [f"tool: {name}"]
    for key, value in arguments.items():
        text = value if isinstance(value, str) else _ENCODE(value).decode()
        lines.append(f"{key}:\n{text}" if "\n" in text else f"{key}: {text}")
    return "\n".join(lines)


def find_touched(arguments: Mapping[str, Any], cwd: str | None) -> Iterator[str]:
    """The files that a call touched, as keys of the `paths` table: from arguments and patch headers, never from shell text."""
    found: dict[str, None] = {}
    for key, value in arguments.items():
        if key in PATH_ARGUMENTS:
            found.update(dict.fromkeys(_paths(value)))
        elif key in PATCH_ARGUMENTS and isinstance(value, str):
            found.update(dict.fromkeys(PATCH_HEADER.findall(value)))
    for path in list(found)[:MAX_TOUCHED]:
        if 0 < len(path) <= MAX_PATH and "\n" not in path and path != "/dev/null":
            yield path_key(clean(os.path.normpath(os.path.join(cwd or "", path))))


def _paths(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value[:MAX_TOUCHED]:
            yield from _paths(item)
    elif isinstance(value, dict):
        yield from (item for key, item in value.items() if key in PATH_ARGUMENTS and isinstance(item, str))


def _clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean(text)
