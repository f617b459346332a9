"""The messages of a file, each once, with the first time and all that any version of it has.

Taken literally, the log forgets: `$set.messages` replaces all messages by copies with new times and without the calls' results. So the
copies of messages that are there already are passed over, and of those written again every part counts that says something.
"""

import msgspec

from sesamed.model import Bad
from sesamed.source import BadLineError
from sesamed.sources.gemini.lines import STARTS, Line, Message, ToolUse
from sesamed.sources.gemini.text import is_context, text_of
from sesamed.sources.lines import LineDecoder
from sesamed.sources.times import Time

DECODER = LineDecoder(Line, STARTS)


class Rewind(msgspec.Struct, frozen=True):
    """The person went back to before this message; to the beginning, if there is none."""

    message: str


class History(msgspec.Struct):
    """What a whole file says, in its order."""

    session: str = ""
    project_hash: str = ""
    started: Time = None
    kind: str = ""
    directories: list[str] = []
    summary: str = ""
    context: str = ""  # what told the model where it is
    messages: dict[str, Message] = {}  # by their ids
    order: list[str | Rewind] = []  # their ids, and where the person went back
    bad: list[Bad] = []


def read_history(data: bytes, *, is_log: bool) -> History:
    """The history in a file. Raises BadLineError when nothing of it can be decoded."""
    history = History()
    if not is_log:
        _add_line(history, DECODER.decode(data))
        return history
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            _add_line(history, DECODER.decode(line))
        except BadLineError:
            if number < len(lines):  # the last one has no newline: it is still being written
                history.bad.append(Bad())
                for entry in DECODER.salvage(line):
                    _add_line(history, entry)
    if not history.session and not history.order:
        raise BadLineError("no whole line is in it")
    return history


def _add_line(history: History, line: Line) -> None:
    if line.session_id:
        _add_session(history, line)
    if line.set is not None:
        history.session = history.session or line.set.session_id or ""
        history.summary = line.set.summary or history.summary
        for message in line.set.messages or ():
            _add_copy(history, message)
    if line.rewind_to is not None:
        history.order.append(Rewind(line.rewind_to))
    if line.id and line.type:
        _add_message(history, line)


def _add_session(history: History, line: Line) -> None:
    """The first time is when it began; a resumed session says it again, later."""
    history.session = history.session or line.session_id or ""
    history.project_hash = history.project_hash or line.project_hash or ""
    history.started = history.started or line.start_time
    history.kind = history.kind or line.kind or ""
    history.directories = history.directories or line.directories or []
    history.summary = line.summary or history.summary
    for message in line.messages or ():
        _add_message(history, message)


def _add_copy(history: History, message: Message) -> None:
    if message.id and message.id not in history.messages:
        _add_message(history, message)


def _add_message(history: History, message: Message) -> None:
    """A message, or another version of one."""
    if message.type == "user" and is_context(text := text_of(message.content)):
        history.context = history.context or text  # its id is the same in all sessions
        return
    if not message.id:
        return
    known = history.messages.get(message.id)
    if known is None:
        history.order.append(message.id)
        history.messages[message.id] = message
        return
    history.messages[message.id] = Message(
        id=message.id,
        timestamp=known.timestamp,
        type=known.type,
        content=message.content if text_of(message.content) else known.content or message.content,
        display_content=message.display_content or known.display_content,
        tool_calls=_join_calls(known.tool_calls or [], message.tool_calls or []),
    )


def _join_calls(known: list[ToolUse], new: list[ToolUse]) -> list[ToolUse]:
    """Each call once, as it was written last, but never without a result that it had."""
    calls = {call.id: call for call in known}
    for call in new:
        before = calls.get(call.id)
        calls[call.id] = call if call.result or before is None else before
    return list(calls.values())
