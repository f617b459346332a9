"""A thread of Zed's: flat views of its document, and the records in it.

A message is an object whose one field says what it is (`{"User": …}`), and so is a piece of its content. Before 0.3.0 messages had roles,
and segments; both are read. Messages have no times, and answers no ids: a record is known by its place in the thread.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from sesamed.calls import decode_arguments, strip_server
from sesamed.model import Message, Operation, Role, Unknown, record_key
from sesamed.source import BadLineError
from sesamed.sources.lines import EMPTY, FAILURES, LineDecoder, repair
from sesamed.sources.names import name_facts
from sesamed.sources.records import OpenCall, Place, Short, Time

VERSIONS: Final = (None, "0.1.0", "0.2.0", "0.3.0")  # of the document; at first it had none
SHELLS: Final = frozenset({"terminal", "sandboxed_terminal"})
# What the model is told of a command that came to nothing; the result is no error to Zed. The first two have the command in quotes.
FAILED: Final = ("failed with exit code", "timed out.")
STOPPED: Final = (
    "Command failed or was interrupted",
    "Command terminated unexpectedly",
    "The user stopped this command",
)
ANYTHING: Final = msgspec.json.Decoder().decode
NULL: Final = msgspec.Raw(b"null")
ABSENT: Final = msgspec.Raw(b"")


class Git(msgspec.Struct, gc=False):
    """Of a directory."""

    current_branch: Short | None = None


class Tree(msgspec.Struct, gc=False):
    """A directory of the project."""

    worktree_path: Short | None = None
    git_state: Git | None = None

    @property
    def branch(self) -> str | None:
        """What was checked out there."""
        return None if self.git_state is None else self.git_state.current_branch


class Snapshot(msgspec.Struct, gc=False):
    """The project when the thread began."""

    worktree_snapshots: list[Tree] | None = None
    timestamp: Time = None


class Origin(msgspec.Struct, gc=False):
    """Of a subagent's thread."""

    parent_thread_id: Short | None = None


class Target(msgspec.Struct, gc=False):
    """What is mentioned, whatever it is."""

    name: str | None = None
    abs_path: str | None = None
    file_path: str | None = None
    path: str | None = None
    url: str | None = None
    base_ref: str | None = None

    @property
    def shown(self) -> str:
        """As a person sees it: of a path, its last part."""
        path = self.abs_path or self.file_path or self.path or ""
        return self.name or posixpath.basename(path.rstrip("/")) or self.url or self.base_ref or ""


class Mention(msgspec.Struct, gc=False):
    """Something that is mentioned in a prompt; its text goes to the model only."""

    uri: dict[str, Target] | str | None = None

    @property
    def shown(self) -> str:
        """As a person sees it."""
        named = self.uri.items() if isinstance(self.uri, dict) else [(self.uri or "", Target())]
        return next((f"@{target.shown or kind}" for kind, target in named), "")


class Use(msgspec.Struct, gc=False):
    """A call."""

    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(EMPTY)


class Result(msgspec.Struct, gc=False):
    """What a call came to."""

    tool_use_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NULL


class Piece(msgspec.Struct, gc=False):
    """A piece of a message's content; at first with a `type`."""

    said: str | None = msgspec.field(default=None, name="Text")
    mention: Mention | None = msgspec.field(default=None, name="Mention")
    image: msgspec.Raw = msgspec.field(default=ABSENT, name="Image")
    use: Use | None = msgspec.field(default=None, name="ToolUse")
    thinking: msgspec.Raw = msgspec.field(default=ABSENT, name="Thinking")
    redacted: msgspec.Raw = msgspec.field(default=ABSENT, name="RedactedThinking")
    type: str | None = None
    text: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is of a type that this reads, or skips."""
        skipped = (self.image, self.thinking, self.redacted)
        known = (self.said, self.mention, self.use, self.type)
        return any(value is not None for value in known) or any(value != ABSENT for value in skipped)


class User(msgspec.Struct, gc=False):
    """A prompt."""

    id: Short | None = None
    content: list[Piece] | None = None


class Agent(msgspec.Struct, gc=False):
    """An answer, with the results of its calls."""

    content: list[Piece] | None = None
    tool_results: dict[str, msgspec.Raw] | None = None


class Compacted(msgspec.Struct, gc=False):
    """What a compaction replaced the talk by, for the model."""

    content: str | None = None


class Compaction(msgspec.Struct, gc=False):
    """Before it, the model sees nothing any more."""

    summary: str | Compacted | None = msgspec.field(default=None, name="Summary")


class Entry(msgspec.Struct, gc=False):
    """A message: one of the first three, or (up to 0.2.0) all the others."""

    user: User | None = msgspec.field(default=None, name="User")
    agent: Agent | None = msgspec.field(default=None, name="Agent")
    compaction: Compaction | None = msgspec.field(default=None, name="Compaction")
    role: str | None = None
    segments: list[Piece] | None = None
    text: str | None = None  # without a version
    tool_uses: list[Use] | None = None
    tool_results: list[Result] | None = None
    is_hidden: bool | None = None


class Thread(msgspec.Struct, gc=False):
    """The document."""

    version: Any = None
    messages: list[Entry | str] | None = None
    initial_project_snapshot: Snapshot | None = None
    subagent_context: Origin | None = None

    @property
    def trees(self) -> list[Tree]:
        """The directories of the project when the thread began."""
        return (self.initial_project_snapshot or Snapshot()).worktree_snapshots or []

    @property
    def parent(self) -> str | None:
        """The thread that a subagent works for."""
        return None if self.subagent_context is None else self.subagent_context.parent_thread_id


STARTS: Final = re.compile(r"\{")
DOCUMENT: Final = LineDecoder(Thread, STARTS)
RESULT: Final = LineDecoder(Result, STARTS)


def decode_thread(data: bytes) -> Thread:
    """The document. What is of another version is not guessed at."""
    thread = DOCUMENT.decode(data)
    if thread.version not in VERSIONS or thread.messages is None:
        raise BadLineError("of a version that is not known")
    return thread


class OpenUse(OpenCall, frozen=True):
    """A call that has no result yet; of a shell, with its command."""

    command: str | None = None


class Reading:
    """A thread while it is read."""

    def __init__(self, session: str, roots: Sequence[str]) -> None:
        self._session, self._roots = session, roots
        self._calls: dict[str, OpenUse] = {}

    def read(self, number: int, entry: Entry) -> Iterator[Operation]:
        """A message."""
        stamp = f"zed\0{self._session}\0{number}"
        if entry.user is not None:
            yield from _unknown(entry.user.content)
            yield from _say_prompt(Place(entry=entry.user.id, stamp=stamp), entry.user.content or [])
        elif entry.agent is not None:
            yield from _unknown(entry.agent.content)
            yield from self._answer(stamp, entry.agent.content or [])
            yield from self._finish(stamp, _decode_results((entry.agent.tool_results or {}).values()))
        elif entry.compaction is not None:
            yield from _say_summary(Place(stamp=stamp), entry.compaction)
        elif entry.role is not None:
            yield from self._read_first(stamp, entry)
        else:
            yield Unknown(type="message")

    def _read_first(self, stamp: str, entry: Entry) -> Iterator[Operation]:
        """A message of before 0.3.0. Results were in the next message of the user's at first, and in the answer later."""
        results = entry.tool_results or []
        said = [piece.text for piece in entry.segments or [] if piece.type == "text" and piece.text]
        text = entry.text if entry.segments is None else "\n".join(said)
        is_prompt = entry.role == "user" and not results and not entry.is_hidden
        if text and text.strip() and (is_prompt or entry.role == "assistant"):
            speaker: Role = "user" if is_prompt else "assistant"
            yield Place(stamp=stamp).message(record_key(stamp, "0"), speaker, text, prompt=is_prompt)
        for at, use in enumerate(entry.tool_uses or []):
            yield from self._call(stamp, at, use)
        yield from self._finish(stamp, results)

    def _answer(self, stamp: str, pieces: Sequence[Piece]) -> Iterator[Operation]:
        for at, piece in enumerate(pieces):
            if piece.said and piece.said.strip():
                yield Place(stamp=stamp).message(record_key(stamp, str(at)), "assistant", piece.said)
            if piece.use is not None:
                yield from self._call(stamp, at, piece.use)

    def _call(self, stamp: str, at: int, use: Use) -> Iterator[Operation]:
        name, arguments = use.name or "", _arguments(bytes(use.input))
        given = decode_arguments(arguments)
        key = record_key(stamp, f"call\0{use.id or at}")
        place = Place(cwd=self._base(given), stamp=stamp)
        call = place.call(key, name, arguments, tool=strip_server(name))
        yield call
        command = given.get("command")
        is_shell = name in SHELLS and isinstance(command, str)
        self._calls[use.id or ""] = OpenUse(key, call.hidden, command if is_shell else None)

    def _finish(self, stamp: str, results: Iterable[Result]) -> Iterator[Operation]:
        """Results; one whose call is not known is a call of its own."""
        for result in results:
            text, call = _text_of(bytes(result.content)), self._calls.pop(result.tool_use_id or "", None)
            if call is None:
                key = record_key(stamp, f"result\0{result.tool_use_id}")
                yield Place(stamp=stamp).call(key, result.tool_name or "", output=text, is_error=bool(result.is_error))
            else:
                failed = bool(result.is_error) or _has_failed(call.command, text)
                yield Place(stamp=stamp).result(call, text, is_error=failed)

    def _base(self, arguments: Mapping[str, Any]) -> str | None:
        """The directory that a call's paths are relative to: they begin with the name of one of the project's."""
        path = arguments.get("path", arguments.get("source_path"))
        first = path.partition("/")[0] if isinstance(path, str) else ""
        above = (posixpath.dirname(root) for root in self._roots if posixpath.basename(root) == first != "")
        return next(above, self._roots[0] if self._roots else None)


def read_messages(thread: Thread, session: str, roots: Sequence[str]) -> list[Operation]:
    """What was said and done, and the name that the prompts give."""
    reading, found = Reading(session, roots), list[Operation]()
    for number, entry in enumerate(thread.messages or []):
        if isinstance(entry, Entry):
            found += reading.read(number, entry)
        elif entry != "Resume":
            found.append(Unknown(type="message"))
    prompts = (said.text for said in found if isinstance(said, Message) and said.role == "user")
    return [*found, *name_facts(prompts)]


def _unknown(pieces: Sequence[Piece] | None) -> Iterator[Operation]:
    if any(not piece.is_known for piece in pieces or []):
        yield Unknown(type="content")


def _decode_results(given: Iterable[msgspec.Raw]) -> Iterator[Result]:
    """Each result; what is none is left out."""
    for raw in given:
        with suppress(BadLineError):
            yield RESULT.decode(bytes(raw))


def _say_prompt(place: Place, pieces: Sequence[Piece]) -> Iterator[Operation]:
    """What the person said, with what is mentioned where it stands; it may be a picture."""
    parts: list[str] = []
    for before, piece in zip([None, *pieces], pieces, strict=False):
        if piece.said is not None and before is not None and before.said is not None:
            parts.append("\n")
        if piece.mention is not None and parts and not parts[-1][-1:].isspace():
            parts.append(" ")
        parts.append(piece.said or (piece.mention.shown if piece.mention is not None else ""))
    text = "".join(parts)
    if text.strip() or any(piece.image != ABSENT for piece in pieces):
        yield place.message(record_key(place.stamp, "0"), "user", text, prompt=True)


def _say_summary(place: Place, compaction: Compaction) -> Iterator[Operation]:
    said = compaction.summary
    text = said if isinstance(said, str) else None if said is None else said.content
    if text and text.strip():
        yield place.message(record_key(place.stamp, "0"), "summary", text)


def _arguments(given: bytes) -> bytes:
    """A call's arguments: as they are, or within what says whether they are JSON or a text."""
    try:
        value = ANYTHING(repair(given))
    except FAILURES:
        return given
    if isinstance(value, dict) and set(value) == {"type", "value"}:
        inner = value["value"]
        if value["type"] == "json":
            return msgspec.json.encode(inner)
        if value["type"] == "text":
            return msgspec.json.encode({"input": inner})
    return given


def _text_of(content: bytes) -> str:
    """The text of a result: one, or several, each as it is or in an object; pictures are left out."""
    try:
        value = ANYTHING(repair(content))
    except FAILURES:
        return ""
    return "\n".join(text for item in (value if isinstance(value, list) else [value]) if (text := _text_in(item)))


def _text_in(item: Any) -> str:
    if isinstance(item, dict):
        item = next((value for name, value in item.items() if name.lower() == "text"), "")
    return item if isinstance(item, str) else ""


def _has_failed(command: str | None, text: str) -> bool:
    """Whether a command failed, by what the model is told of it."""
    if command is None:
        return False
    return text.startswith((*STOPPED, *(f'Command "{command}" {ending}' for ending in FAILED)))
