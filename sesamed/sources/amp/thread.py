"""A thread of Amp's: flat views of its document, and the records in it.

Messages have numbers, calls have ids, and a fork copies both; so a record is known by these, and by when the first prompt was sent, which
tells threads apart and stays in copies. Results are in the user's messages that follow. Answers have no time: what was spent on them has.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from sesamed.calls import strip_server, value_text
from sesamed.model import Fact, NameRank, Operation, Role, ToolCall, Unknown, record_key
from sesamed.sources.lines import EMPTY, FAILURES, LineDecoder, object_of
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import Place, Time, join_texts, millis

ENDED: Final = frozenset({"done", "error", "cancelled", "rejected-by-user"})
SHOWN: Final = ("output", "content", "diff")  # what a person is shown of a result that is an object
BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "provider"})
SHELL_TOOL: Final = "Bash"
ANYTHING: Final = msgspec.json.Decoder()


class Failure(msgspec.Struct, gc=False):
    """Why a tool failed."""

    message: str | None = None


class Run(msgspec.Struct, gc=False):
    """How a call goes."""

    status: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: Failure | str | None = None


class Summary(msgspec.Struct, gc=False):
    """What became of the talk so far."""

    type: str = ""
    summary: str | None = None


class Block(msgspec.Struct, gc=False):
    """A block of a message."""

    type: str = ""
    text: str | None = None
    id: str | None = None  # tool_use, and so are the next two
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(EMPTY)
    tool_use_id: str | None = msgspec.field(default=None, name="toolUseID")  # tool_result
    run: Run | None = None
    summary: Summary | None = None
    args: msgspec.Raw = msgspec.Raw(EMPTY)  # manual_bash_invocation, and so is the next one
    tool_run: Run | None = msgspec.field(default=None, name="toolRun")


class Meta(msgspec.Struct, gc=False, rename="camel"):
    """About a prompt."""

    sent_at: Time = None


class Origin(msgspec.Struct, gc=False):
    """Who wrote a prompt, if it was not the person: a hook, or the program."""

    type: str = ""


class Message(msgspec.Struct, gc=False, rename="camel"):
    """A message: `user`, `assistant` or `info`."""

    role: str = ""
    message_id: int | str | None = None
    content: str | list[Block] | None = None
    meta: Meta | None = None
    source: Origin | str | None = None


class Repository(msgspec.Struct, gc=False):
    """Of a directory."""

    ref: str | None = None


class Tree(msgspec.Struct, gc=False):
    """A directory that the thread works in."""

    uri: str | None = None
    repository: Repository | None = None


class Initial(msgspec.Struct, gc=False):
    """What there was at first."""

    trees: list[Tree] | None = None


class Environment(msgspec.Struct, gc=False):
    """Where the thread works."""

    initial: Initial | None = None


class Relationship(msgspec.Struct, gc=False):
    """Another thread, and what this one is to it: its `parent` or its `child`."""

    thread_id: str | None = msgspec.field(default=None, name="threadID")
    role: str = ""


class Spent(msgspec.Struct, gc=False, rename="camel"):
    """What an answer cost, and when."""

    timestamp: Time = None
    to_message_id: int | str | None = None


class Ledger(msgspec.Struct, gc=False):
    """What the thread cost."""

    events: list[Spent] | None = None


class Thread(msgspec.Struct, gc=False, rename="camel"):
    """The document."""

    id: str | None = None
    created: Time = None
    title: str | None = None
    messages: list[Message] | None = None
    env: Environment | None = None
    relationships: list[Relationship] | None = None
    origin_thread: str | None = msgspec.field(default=None, name="originThreadID")
    main_thread: str | None = msgspec.field(default=None, name="mainThreadID")
    usage_ledger: Ledger | None = None


THREADS: Final = LineDecoder(Thread, re.compile(r"\{"))


def read_records(thread: Thread, cwd: str | None) -> Iterator[Operation]:
    """Messages and calls, each at its time, and the name that the first prompt gives."""
    messages = thread.messages or []
    results = {
        block.tool_use_id or "": block.run for message in messages for block in blocks(message) if block.tool_use_id
    }
    spent = (thread.usage_ledger and thread.usage_ledger.events) or ()
    times = {event.to_message_id: millis(event.timestamp) for event in spent if event.to_message_id is not None}
    sent = (message.meta.sent_at for message in messages if message.meta is not None and message.meta.sent_at)
    anchor, now_ms, named = str(next(sent, None) or thread.id), millis(thread.created), False
    for number, message in enumerate(messages):
        own_ms = (
            millis(message.meta.sent_at)
            if message.meta is not None
            else times.get("" if message.message_id is None else message.message_id)
        )
        now_ms = now_ms if own_ms is None else own_ms
        name = f"#{number}" if message.message_id is None else str(message.message_id)
        place = Place(entry=name, time_ms=now_ms, cwd=cwd, stamp=f"amp\0{anchor}\0{name}")
        yield from _read_message(place, message, results)
        if message.role == "user" and not named and (fact := prompt_fact(_said(message))) is not None:
            named = fact.rank == NameRank.PROMPT
            yield fact


def blocks(message: Message) -> list[Block]:
    """The blocks of a message; plain text has none."""
    return message.content if isinstance(message.content, list) else []


def _said(message: Message) -> str:
    """What the person said in a message; nothing if the program did in their name."""
    return "" if message.source else join_texts(message.content)


def _read_message(place: Place, message: Message, results: dict[str, Run | None]) -> Iterator[Operation]:
    if message.role not in ("user", "assistant", "info"):
        yield Unknown(type=f"message/{message.role}")
        return
    text = join_texts(message.content)
    pictured = not text and any(block.type == "image" for block in blocks(message))
    if text.strip() or (message.role == "user" and pictured):
        role: Role = "user" if message.role == "user" else "assistant"
        if message.role == "info" or (message.role == "user" and message.source):
            role = "custom"
        yield place.message(record_key(place.stamp, role), role, text, prompt=role == "user")
    for part, block in enumerate(blocks(message)):
        if block.type == "tool_use" and block.name:
            yield _tool_call(place, block, part, results.get(block.id or ""))
        elif block.type == "manual_bash_invocation":
            output, is_error = output_of(block.tool_run)
            key, arguments = record_key(f"{place.stamp}\0bash", str(part)), object_of(bytes(block.args))
            yield place.command(key, SHELL_TOOL, arguments, output=output, is_error=is_error)
        elif block.type == "summary":
            if block.summary is not None and block.summary.summary:
                yield place.message(record_key(f"{place.stamp}\0summary", str(part)), "summary", block.summary.summary)
        elif block.type not in BLOCKS:
            yield Unknown(type=f"block/{block.type}")


def _tool_call(place: Place, block: Block, part: int, run: Run | None) -> ToolCall:
    """A call, with its result if that is known."""
    name, arguments = block.name or "", object_of(bytes(block.input))
    output, is_error = output_of(run)
    key = record_key(f"{place.stamp}\0call\0{part}", block.id or "")
    return place.call(key, name, arguments, tool=strip_server(name), output=output, is_error=is_error)


def output_of(run: Run | None) -> tuple[str | None, bool | None]:
    """What a call gave back, and whether it failed; None as long as it runs."""
    if run is None or run.status not in ENDED:
        return None, None
    why = run.error if isinstance(run.error, str) else (run.error and run.error.message) or ""
    try:
        result: Any = ANYTHING.decode(bytes(run.result))
    except FAILURES:
        return why, True
    code = result.get("exitCode") if isinstance(result, dict) else None
    return "\n".join(filter(None, (_text_of(result), why))), run.status != "done" or code not in (None, 0)


def _text_of(result: Any) -> str:
    if result is None:
        return ""
    if isinstance(result, dict):
        shown = [result[name] for name in SHOWN if isinstance(result.get(name), str)]
        return next(filter(None, shown), "") if shown else value_text(result)
    if isinstance(result, list):
        texts = [item.get("text") if isinstance(item, dict) else item for item in result]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts))
    return value_text(result)


def read_place(thread: Thread) -> list[Fact]:
    """The first directory, and its branch."""
    trees = (thread.env and thread.env.initial and thread.env.initial.trees) or ()
    tree = next((tree for tree in trees if tree.uri and tree.uri.startswith("file://")), None)
    if tree is None:
        return []
    branch = (tree.repository and tree.repository.ref) or ""
    facts = [Fact(field="cwd", value=_path_of(tree.uri or ""))]
    return facts + ([Fact(field="git_branch", value=branch.removeprefix("refs/heads/"))] if branch else [])


def _path_of(uri: str) -> str:
    path = unquote(uri.removeprefix("file://"), errors="replace")
    return path[1:] if re.match(r"/[A-Za-z]:", path) else path
