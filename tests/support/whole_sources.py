"""Small sources of units that are said whole every time: a document, a bundle of files, sessions in a database. Each says what stands in
the JSON that it is given, so that tests decide what is said.

An item is `{"session": …, "name": …, "records": [{"key", "role", "text", "tool", "output", "time"}]}`; a member of a bundle and a row of a
database are one record, or what is said of the session.
"""

import json
import re
from pathlib import PurePath
from typing import Any

from hypothesis import strategies as st

from sesamed.model import Fact, Identity, Message, Operation, Passed, ToolCall, ToolResult, Undone, digest
from sesamed.source import (
    BadLineError,
    Bundle,
    Document,
    ForeignFileError,
    Lines,
    Location,
    Member,
    Query,
    Row,
    Rows,
    Shape,
    Source,
    ToolFamilies,
)

# What they may say: few records, so that several units hold the same one, and calls with different results.
TEXTS = st.sampled_from(["alpha", "beta gamma", "make", "done boom", "", "é😀 alpha", "\ud800 lone"])
TIMES = st.sampled_from([None, 1_772_355_600_000, 1_772_355_601_000])
MESSAGES = st.fixed_dictionaries(
    {"key": st.integers(0, 2), "text": TEXTS},
    optional={"time": TIMES, "role": st.sampled_from(["user", "assistant"]), "undone": st.just(True)},  # from there on
)
CALLS = st.fixed_dictionaries(
    {"key": st.integers(3, 4), "text": st.just("make"), "tool": st.just("bash"), "output": TEXTS},
    optional={"time": TIMES, "failed": st.booleans(), "undone": st.just(True)},
)
RECORDS = CALLS | MESSAGES

State = tuple[()]
BEGAN = Fact(field="began", value="1772355600000")


class _Told(Source[State]):
    """What the three have in common."""

    label = "Test"
    version = 1
    locations: tuple[Location, ...] = ()
    resume = None
    asks = ()
    tool_families = ToolFamilies()

    def begin(self, path: PurePath, part: str = "") -> tuple[State, list[Operation]]:
        return (), [Identity(native_id=part, origin=""), BEGAN] if part else []

    def freeze(self, state: State) -> bytes:
        return b"x"

    def thaw(self, data: bytes) -> State:
        return ()


class Letters(_Told):
    """A document a session."""

    name = "letters"
    shapes: tuple[Shape, ...] = (
        Document(files=("**/*.letter",), max_bytes=8 << 20),
        Document(files=("**/*.letters",), max_bytes=1 << 10, in_lines=True),
    )

    def step(self, state: State, item: bytes) -> tuple[State, list[Operation]]:
        return (), [said for line in item.splitlines() for said in tell(decode(line))]


class Folders(_Told):
    """A directory a session, with messages and their parts elsewhere."""

    name = "folders"
    shapes: tuple[Shape, ...] = (
        Bundle(
            unit="session/{project}/{session}.json",
            members=(
                "session/{project}/{session}.json",
                "message/{session}/{message}.json",
                "part/{message}/{part}.json",
            ),
            max_bytes=1 << 20,
        ),
    )

    def step(self, state: State, item: Member) -> tuple[State, list[Operation]]:
        return (), tell(decode(item.data))


SESSIONS = Query(
    units="SELECT id, version FROM session",
    rows=(
        "SELECT title FROM session WHERE id = :unit",
        "SELECT data FROM part WHERE session = :unit ORDER BY id",
    ),
)


class Tables(_Told):
    """Sessions in a database; perhaps also in one that lies among those of other programs."""

    name = "tables"
    shapes: tuple[Shape, ...] = (
        Rows(files=("*.db",), queries=(SESSIONS,)),
        Rows(files=("shared/*.db",), queries=(SESSIONS,), is_certain=False),
    )

    def step(self, state: State, item: Row) -> tuple[State, list[Operation]]:
        (value,) = item.values
        if item.query == 0:
            return (), [Fact(field="name", value=str(value), rank=3)] if value else []
        return (), tell(decode(value if isinstance(value, bytes) else str(value).encode()))


class Chronicles(_Told):
    """Lines of several sessions, each but the first with a line that begins with `#`."""

    name = "chronicles"
    shapes: tuple[Shape, ...] = (Lines(files=("**/*.chronicle",), begins=re.compile(rb"#")),)

    def begin(self, path: PurePath, part: str = "") -> tuple[State, list[Operation]]:
        return (), [Identity(native_id=f"{path.stem}-{part}", origin=""), BEGAN]

    def step(self, state: State, item: bytes) -> tuple[State, list[Operation]]:
        if not item.strip():
            return (), []
        if item == b"# nobody":
            raise ForeignFileError
        if item.startswith(b"#"):
            return (), [Fact(field="name", value=item[1:].decode(), rank=3)]
        return (), tell(decode(item))


def decode(data: bytes) -> Any:
    """JSON, or nothing."""
    try:
        return json.loads(data)
    except ValueError:
        raise BadLineError("not whole") from None


def tell(said: Any) -> list[Operation]:
    """What an item says."""
    found: list[Operation] = []
    if "session" in said:
        found += [Identity(native_id=said["session"], origin=""), BEGAN]
    if said.get("name"):
        found.append(Fact(field="name", value=said["name"], rank=3))
    for record in said.get("records", [said] if {"key", "passed", "result", "undone"} & said.keys() else []):
        found += _record(record)
    return found


def _record(record: Any) -> list[Operation]:
    if "passed" in record:
        return [Passed(entry=record["passed"], parent=record.get("parent"))]
    if "result" in record:
        call = digest(str(record["result"]).encode())
        return [ToolResult(key=call, text=record["output"], is_error=bool(record.get("failed")))]
    if isinstance(record.get("undone"), str):
        return [Undone(key=digest(record["undone"].encode()))]
    key, time_ms = digest(str(record["key"]).encode()), record.get("time")
    if "tool" not in record:
        role = record.get("role", "user")
        said: list[Operation] = [
            Message(
                key=key,
                role=role,
                text=record["text"],
                time_ms=time_ms,
                prompt=role == "user",
                entry=str(record["key"]),
                parent=record.get("parent"),
                cwd=record.get("cwd", f"/w/{key % 3}"),
            )
        ]
    else:
        arguments = record.get("raw", json.dumps({"path": record.get("text", "")})).encode()
        said = [ToolCall(key=key, name=record["tool"], arguments=arguments, time_ms=time_ms, cwd="/w")]
        if "output" in record:
            said.append(ToolResult(key=key, text=record["output"], is_error=bool(record.get("failed"))))
    if record.get("undone"):
        said.append(Undone(key=key))
    return said
