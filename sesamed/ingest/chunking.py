"""Turns operations into rows: one chunk per message, per tool call and per result, as structured text, cut, cleaned, masked and packed.
No I/O.

All text work is done here, before the transaction.
"""

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from sesamed.calls import call_text, decode_arguments, find_touched
from sesamed.masking import Secrets, choose_mask, find_cut
from sesamed.model import (
    ACTIVE,
    SAID_FIELDS,
    TEXT_FIELDS,
    Bad,
    Entry,
    Fact,
    Identity,
    Message,
    Operation,
    Outcome,
    Passed,
    ToolCall,
    ToolResult,
    Touched,
    Undone,
    Unknown,
)
from sesamed.sanitize import clean_line, clean_text
from sesamed.store.ids import Kind, line_digest, path_key
from sesamed.store.rows import (
    FileRows,
    OutcomeRow,
    PassedRow,
    RecordRow,
    Remark,
    ResultRow,
    Text,
    TouchedRow,
    UndoneRow,
)
from sesamed.store.sqlite import Packer

KEPT_MASKS = 4096
KIND_OF_ROLE: Mapping[str, Kind] = {
    "user": Kind.USER,
    "assistant": Kind.ASSISTANT,
    "custom": Kind.CUSTOM,
    "summary": Kind.SUMMARY,
}


class Chunking:
    """Turns operations into rows."""

    def __init__(self, max_chunk_bytes: int, secrets: Secrets = "mask") -> None:
        self._max = max_chunk_bytes
        self._home = os.path.expanduser("~")
        self._packer = Packer(secrets)
        self._mask = lru_cache(KEPT_MASKS)(choose_mask(secrets))  # names of tools and files come again and again
        self._take: Mapping[type, Callable[[FileRows, Any], None]] = {
            Message: self._add,
            ToolCall: self._add,
            ToolResult: lambda change, result: change.rows.append(self._result(result)),
            Outcome: _correct,
            Touched: lambda change, touched: change.rows.append(self._touch(touched)),
            Fact: self._state,
            Identity: _identify,
            Entry: _enter,
            Passed: _pass,
            Undone: _undo,
            Unknown: _count_unknown,
            Bad: _note_bad,
        }

    def fill(self, change: FileRows, operations: Iterable[Operation]) -> None:
        """Add what a source said to the change."""
        for operation in operations:
            self._take[type(operation)](change, operation)
            if (time_ms := last_time(operation)) is not None:
                change.active_ms = max(time_ms, change.active_ms or 0)

    def _add(self, change: FileRows, record: Message | ToolCall) -> None:
        change.rows.append(self.make_row(record))
        note_directories(change, [record.cwd])

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
        arguments, name = decode_arguments(call.arguments), self._mask(clean_line(clean(call.name)))
        kind = Kind.UNINDEXED if call.hidden else Kind.CALL
        text = call_text(name, arguments, self._max) if call.written is None else call.written
        texts = [*self._texts(kind, text, len(call.arguments))]
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
            touched=self._keys(find_touched(arguments, call.cwd, self._home)),
            ordinal=call.ordinal,
        )

    def _result(self, result: ToolResult) -> ResultRow:
        texts = [] if result.hidden else [*self._texts(Kind.RESULT, result.text)]
        return ResultRow(result.key, texts[0] if texts else None, result.is_error)

    def _touch(self, touched: Touched) -> TouchedRow:
        paths = find_touched({"paths": list(touched.paths)}, None, self._home)
        return TouchedRow(touched.key, self._keys(paths))

    def _keys(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Files as keys; a token in an URL that a tool was given for a path is masked, too."""
        return tuple(path_key(self._mask(clean(path))) for path in paths)

    def _texts(self, kind: Kind, text: str, length: int = 0) -> Iterator[Text]:
        """At most one chunk; none of nothing."""
        if text and not text.isspace():
            yield self._packer.make_text(kind, clean(cut(text, self._max, length)))

    def _state(self, change: FileRows, fact: Fact) -> None:
        if fact.field == ACTIVE:  # which `fill` keeps
            return
        value = clean(fact.value)
        if fact.field in TEXT_FIELDS:
            value = clean_text(value)
        if fact.field in SAID_FIELDS:
            value = self._mask(value)
        if fact.entry is None:
            change.facts.append(msgspec.structs.replace(fact, value=value, native_id=_clean_or_none(fact.native_id)))
            return
        digest = line_digest(change.source, fact.entry)
        change.remarks.append(Remark(entry=digest, field=fact.field, value=value, rank=fact.rank, keep=fact.keep))


def note_directories(change: FileRows, directories: Iterable[str | None]) -> None:
    """The session was there; `Decoder` finds the projects."""
    for directory in directories:
        if directory and directory not in change.directories:
            change.directories[clean(directory)] = None


def _identify(change: FileRows, identity: Identity) -> None:
    names = {"native_id": clean(identity.native_id), "origin": clean(identity.origin)}
    change.identity = msgspec.structs.replace(identity, **names)


def _enter(change: FileRows, entry: Entry) -> None:
    change.entries.append(line_digest(change.source, entry.id))


def _pass(change: FileRows, passed: Passed) -> None:
    change.rows.append(PassedRow(line_digest(change.source, passed.entry), _clean_or_none(passed.parent)))


def _correct(change: FileRows, outcome: Outcome) -> None:
    change.rows.append(OutcomeRow(outcome.key, outcome.is_error))


def _undo(change: FileRows, undone: Undone) -> None:
    change.rows.append(UndoneRow(undone.key, undone.alone))


def _count_unknown(change: FileRows, _: Unknown) -> None:
    change.unknown_lines += 1


def _note_bad(change: FileRows, bad: Bad) -> None:
    change.note_bad(bad.reason, bad.line)


def last_time(operation: Operation) -> int | None:
    """When something last happened to what is said here, a result included."""
    if isinstance(operation, Message | ToolCall):
        return operation.time_ms if operation.ended_ms is None else operation.ended_ms
    if isinstance(operation, Fact) and operation.field == ACTIVE:
        return int(operation.value)
    return operation.time_ms if isinstance(operation, ToolResult | Undone) else None


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


def cut(text: str, limit: int, length: int = 0) -> str:
    """At most so many bytes of text, with a note if something was cut. `length`: how long it is in the file, where the text may end
    before."""
    if len(text) * 4 <= limit:
        return text
    head = text[:limit].encode("utf-8", "surrogatepass")  # never all of it: it may have tens of MB
    if len(text) <= limit and len(head) <= limit:
        return text
    kept = text[: find_cut(text, len(head[:limit].decode("utf-8", "ignore")))]
    return f"{kept}\n[… {max(len(text), length) - len(kept)} more characters are in the session file]"


def _clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean(text)
