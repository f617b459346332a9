"""What an index of pi's files must hold, worked out the slow and simple way: all files at once, nothing remembered, no code of sesamed's.

Knows as much of pi's format as the tests write of it: no skills, no images, no odd fields.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

STARTS = re.compile(r'\{"type":"(?:session|session_info|message|custom_message|compaction|branch_summary)"')
KNOWN = {"custom", "label", "model_change", "thinking_level_change", "usage", "context_edit"}
REFERENCE = "sesame-reference"
FIRST_IDS = "2026-01-02T00:00:00"
Key = tuple[Any, ...]
Result = tuple[bool, str]


@dataclass
class Record:
    """A message, or a tool call."""

    key: Key
    role: str
    tool: str | None
    text: str = ""
    time_ms: int | None = None
    entry: str | None = None
    result: Result | None = None


@dataclass
class File:
    """What one file says."""

    native_id: str
    origin: str = ""
    began_ms: int | None = None
    cwd: str | None = None
    parent: str | None = None
    given_name: str = ""
    first_text: str = ""
    first_note: str = ""
    records: dict[Key, Record] = field(default_factory=dict)
    bad: list[int] = field(default_factory=list)  # numbers of lines
    unknown: int = 0
    foreign: bool = False
    begun: bool = False
    calls: dict[str, Key] = field(default_factory=dict)


def parse(data: bytes, stem: str, longest: int = 1 << 30) -> File:
    """A file that nobody writes to any more: a last line without newline counts when it is a whole object."""
    file = File(native_id=stem)
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if len(line) > longest and not file.foreign:
            file.bad.append(number)
        elif line.strip():
            _line(file, line, number)
    if not file.foreign and rest.strip() and len(rest) <= longest and (entry := _object(rest)) is not None:
        unknown = file.unknown
        _entry(file, entry)
        file.unknown = unknown  # counted when the line is whole
    return file


def _line(file: File, line: bytes, number: int) -> None:
    if file.foreign:
        return
    entry = _object(line)
    if entry is not None:
        _entry(file, entry)
        return
    file.bad.append(number)
    found = [entry for entry in _salvaged(line.decode("utf-8", "replace")) if "timestamp" in entry]
    if file.begun or (found and found[0]["type"] == "session"):
        for entry in found:
            _entry(file, entry)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _salvaged(text: str) -> Iterator[dict[str, Any]]:
    at = 0
    while (start := STARTS.search(text, at)) is not None:
        at = start.end()
        try:
            value, at = json.JSONDecoder().raw_decode(text, start.start())
        except ValueError:
            continue
        yield value


def _entry(file: File, entry: dict[str, Any]) -> None:
    kind = entry.get("type")
    if not file.begun:
        if kind != "session":
            file.foreign = True
            return
        file.begun, file.native_id, file.cwd = True, entry["id"], entry.get("cwd")
        file.origin, file.began_ms = f"{entry['id']} {entry['timestamp']}", _millis(entry["timestamp"])
        file.parent = entry.get("parentSession") or entry.get("branchedFrom")
    elif kind == "message":
        _message(file, entry, entry["message"])
    elif kind == "session_info":
        file.given_name = entry["name"].strip()
    elif kind == "custom_message":
        _note(file, entry)
    elif kind in ("compaction", "branch_summary"):
        _say(file, entry, "summary", entry["summary"])
    elif kind not in KNOWN:
        file.unknown += 1


def _note(file: File, entry: dict[str, Any]) -> None:
    text = _text(entry["content"])
    _say(file, entry, "custom", text, label="" if entry["customType"] == REFERENCE else f"[{entry['customType']}]\n")
    if (
        entry["customType"] != REFERENCE and not file.first_text
    ):  # that is quoted from another session: no name of this one
        file.first_note = file.first_note or _name(text)


def _message(file: File, entry: dict[str, Any], message: dict[str, Any]) -> None:
    role, text = message["role"], _text(message.get("content"))
    key: Key
    if role == "user":
        _say(file, entry, role, text, always=True)
        file.first_text = file.first_text or _name(text)
    elif role == "assistant":
        _say(file, entry, role, text)
        for part, block in enumerate(message["content"]):
            if block["type"] == "toolCall":
                key = (*_stamp(entry), "call", part, block["id"], block["name"], json.dumps(block["arguments"]))
                file.calls[block["id"]] = key
                _call(file, entry, Record(key, "assistant", block["name"]), block["arguments"])
    elif role == "toolResult":
        _result(file, entry, message, (message["isError"], text if text.strip() else ""))
    elif role == "bashExecution":
        key = (*_stamp(entry), "bash", message["command"], message["output"])
        output = message["output"] if message["output"].strip() else ""
        result = (message["exitCode"] not in (None, 0), output)
        _call(file, entry, Record(key, "user", "bash", result=result), {"command": message["command"]})


def _result(file: File, entry: dict[str, Any], message: dict[str, Any], result: Result) -> None:
    key = file.calls.pop(message["toolCallId"], None)
    if key is None:  # its call is unknown: a call of its own
        key = (*_stamp(entry), "result", message["toolCallId"], message["toolName"], result[1])
        _call(file, entry, Record(key, "assistant", message["toolName"], result=result), {})
    else:
        if key[-2] == "search_sessions":  # a search of ours: its result is not kept
            result = (result[0], "")
        file.records[key].result = _smaller(file.records[key].result, result)


def _say(file: File, entry: dict[str, Any], role: str, text: str, *, label: str = "", always: bool = False) -> None:
    if text.strip() or always:
        key = (*_stamp(entry), role, text)
        shown = label + text if text.strip() else ""
        file.records.setdefault(key, Record(key, role, None, shown, _time(entry), entry.get("id")))


def _call(file: File, entry: dict[str, Any], call: Record, arguments: dict[str, Any]) -> None:
    lines = [f"tool: {call.tool}"]
    for name, value in arguments.items():
        lines.append(f"{name}:\n{value}" if "\n" in value else f"{name}: {value}")
    call.text, call.time_ms, call.entry = "\n".join(lines), _time(entry), entry.get("id")
    record = file.records.setdefault(call.key, call)
    record.result = _smaller(record.result, call.result)


def _smaller(one: Result | None, other: Result | None) -> Result | None:
    found = [result for result in (one, other) if result is not None]
    return min(found) if found else None


def _stamp(entry: dict[str, Any]) -> tuple[str, str]:
    stamp = entry["timestamp"]
    return ("" if stamp < FIRST_IDS else entry.get("id", ""), stamp)


def _time(entry: dict[str, Any]) -> int | None:
    spoken = entry.get("message", {}).get("timestamp")
    return spoken if spoken is not None else _millis(entry["timestamp"])


def _millis(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content or () if block["type"] == "text" and block.get("text"))


def _name(text: str) -> str:
    """A line with something in it; the tests write short ones."""
    return next((" ".join(line.split()) for line in text.split("\n") if any(map(str.isalnum, line))), "")


@dataclass
class Session:
    """What a session must look like."""

    native_id: str
    origin: str
    files: list[tuple[bytes, File, bool]]  # by path; whether it is gone
    file_ms: int
    public_id: str = ""

    @property
    def records(self) -> dict[Key, Record]:
        """Each record once, where it first stands."""
        found: dict[Key, Record] = {}
        for _, file, _ in self.files:
            for key, record in file.records.items():
                found.setdefault(key, record)
        return found

    @property
    def times(self) -> list[int]:
        """Of everything in it."""
        return [record.time_ms for record in self.records.values() if record.time_ms is not None]

    @property
    def name(self) -> str | None:
        """What the person called it, else what was asked first; files that are there before gone ones."""
        files = [file for _, file, _ in sorted(self.files, key=lambda item: (item[2], item[0]))]
        return next((f.given_name for f in files if f.given_name), None) or next(
            (text for text in [f.first_text for f in files] + [f.first_note for f in files] if text), None
        )

    @property
    def began_ms(self) -> int | None:
        """The header's time."""
        return self.files[0][1].began_ms

    @property
    def created_ms(self) -> int:
        """The first message's time, else the header's, else the file's."""
        return min(self.times, default=self.file_ms if self.began_ms is None else self.began_ms)

    @property
    def age(self) -> tuple[Any, ...]:
        """What decides who of several owns a record."""
        began = self.created_ms if self.began_ms is None else self.began_ms
        return (self.created_ms, began, self.native_id, self.origin)


class World:
    """All files together: sessions, who owns which record, and what the calls gave back."""

    def __init__(self, files: Mapping[bytes, tuple[File, bool, int]]) -> None:
        groups: dict[tuple[str, str], Session] = {}
        for path, (file, gone, mtime_ms) in sorted(files.items()):
            if not file.foreign:
                session = groups.setdefault(
                    (file.native_id, file.origin), Session(file.native_id, file.origin, [], mtime_ms)
                )
                session.files.append((path, file, gone))
                session.file_ms = max(session.file_ms, mtime_ms)
        self.sessions = sorted(groups.values(), key=lambda session: session.age)
        self._number()
        self.holders: dict[Key, list[Session]] = {}
        self.results: dict[Key, Result | None] = {}
        for session in sorted(self.sessions, key=lambda session: session.age):
            for key in session.records:
                self.holders.setdefault(key, []).append(session)
            for _, file, _ in session.files:
                for key, record in file.records.items():
                    self.results[key] = _smaller(self.results.get(key), record.result)

    def text(self, record: Record) -> str:
        """A record as it is read."""
        result = self.results[record.key]
        return record.text if result is None or not result[1] else f"{record.text}\noutput:\n{result[1]}"

    def is_error(self, record: Record) -> bool | None:
        """Whether a call failed, if it came to an end."""
        result = self.results[record.key]
        return None if result is None else result[0]

    def _number(self) -> None:
        counts: dict[str, int] = {}
        for session in self.sessions:
            number = counts[session.native_id] = counts.get(session.native_id, 0) + 1
            session.public_id = session.native_id if number == 1 else f"{session.native_id}~{number}"
