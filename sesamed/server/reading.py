"""The methods that read sessions: lists, pages of messages, all about one. Runs in a reader's thread."""

import json
import os
from collections.abc import Mapping

import apsw

from sesamed.protocol import ListMessagesParams, MessageItem, MessageList, Resume, SessionMeta
from sesamed.store import read, sqlite, summaries, thread

TEXT_BYTES = 64 << 10
PAGE_BYTES = 3 << 20  # of an answer's 4 MiB
MAX_MESSAGES = 200

# How each agent takes a session up again, from which directory (docs/protocol.md).
RESUME: Mapping[str, tuple[str, ...]] = {
    "pi": ("pi", "--session", "{path}"),
    "claude": ("claude", "--resume", "{id}"),
    "codex": ("codex", "resume", "{id}"),
}


def messages(connection: apsw.Connection, params: ListMessagesParams) -> MessageList:
    """A page; as many messages as fit into an answer."""
    session = summaries.find(connection, params.session_id)
    public, total = sqlite.one(
        connection, "SELECT public_id, messages + tool_calls FROM sessions WHERE id = ?", (session,)
    )
    total += thread.inherited(connection, session)
    limit = min(params.limit, MAX_MESSAGES)
    first = params.offset if params.around is None else max(0, min(params.around, total - 1) - limit // 2)
    page: list[MessageItem] = []
    size = 0
    for item in read.items(connection, session, min(first, 1 << 40), limit):
        message = _message(connection, item, params.text_offset)
        size += len(
            json.dumps((message.text, message.tool_name, message.entry_id))
        )  # as bytes: the answer is ASCII, too
        if page and size > PAGE_BYTES:
            break
        page.append(message)
    following = first + len(page)
    return MessageList(
        session_id=public, total=total, next_offset=following if page and following < total else None, messages=page
    )


def meta(connection: apsw.Connection, reference: str, workstation: str) -> SessionMeta:
    """All that is known of a session."""
    session = summaries.find(connection, reference)
    summary = summaries.by_number(connection, [session], workstation)[session]
    sql = "SELECT exchanges, native_id FROM sessions WHERE id = ?"
    exchanges, native_id = sqlite.one(connection, sql, (session,))
    fields = {name: getattr(summary, name) for name in summary.__struct_fields__}
    return SessionMeta(
        **fields, description=None, summary=None, tags=[], tool_counts=read.tool_counts(connection, session), exchange_count=exchanges,
        agent=summary.source, created_by=None, children=summaries.children(connection, session),
        resume=_resume(summary.source, native_id, summary.path, summary.cwd),
    )  # fmt: skip


def _message(connection: apsw.Connection, item: read.Item, text_offset: int) -> MessageItem:
    text = read.whole_text(connection, item.record)[text_offset:]
    kept = text.encode()[:TEXT_BYTES].decode("utf-8", "ignore")
    return MessageItem(
        msg_idx=item.position, role=item.role, kind="tool_call" if item.is_call else "message", tool_name=item.tool,
        is_error=item.is_error, timestamp=summaries.iso(item.time_ms), entry_id=item.entry, text=kept, truncated=len(kept) < len(text),
        undone=item.undone,
    )  # fmt: skip


def _resume(source: str, native_id: str, path: str, cwd: str | None) -> Resume | None:
    command = RESUME.get(source)
    if command is None or not os.path.isabs(path):
        return None
    return Resume(command=[part.format(path=path, id=native_id) for part in command], cwd=cwd)
