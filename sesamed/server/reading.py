"""The methods that read sessions: lists, pages of messages, all about one. Runs in a reader's thread."""

import json

import apsw
import msgspec

from sesamed.protocol import ListMessagesParams, MessageItem, MessageList, Resolved, SessionMeta
from sesamed.sanitize import clean_text
from sesamed.server import resume
from sesamed.store import sqlite
from sesamed.store.reading import inherited as thread
from sesamed.store.reading import messages as read
from sesamed.store.reading import summaries
from sesamed.store.reading.resolve import Project, resolved
from sesamed.times import iso_or_none

TEXT_BYTES = 64 << 10
PAGE_BYTES = 3 << 20  # of an answer's 4 MiB
MAX_MESSAGES = 200

TAGS = msgspec.json.Decoder(list[str])


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
    sql = "SELECT exchanges, description, summary, tags, agent, created_by FROM sessions WHERE id = ?"
    exchanges, description, about, tags, agent, created_by = sqlite.one(connection, sql, (session,))
    return SessionMeta(
        **msgspec.structs.asdict(summary), description=description, summary=about,
        tags=TAGS.decode(tags or "[]"), tool_counts=read.tool_counts(connection, session),
        exchange_count=exchanges, agent=agent or summary.source, created_by=created_by,
        children=summaries.children(connection, session), resume=resume.of(connection, session),
    )  # fmt: skip


def resolve(connection: apsw.Connection, reference: str, project: Project | None, workstation: str) -> Resolved:
    """The session that is meant."""
    session = resolved(connection, reference, project)
    return Resolved(**msgspec.structs.asdict(summaries.by_number(connection, [session], workstation)[session]))


def _message(connection: apsw.Connection, item: read.Item, text_offset: int) -> MessageItem:
    text = clean_text(read.whole_text(connection, item.record))[text_offset:]
    kept = cut(text, TEXT_BYTES)
    return MessageItem(
        msg_idx=item.position, role=item.role, kind="tool_call" if item.is_call else "message", tool_name=item.tool,
        is_error=item.is_error, timestamp=iso_or_none(item.time_ms), entry_id=item.entry, text=kept, truncated=len(kept) < len(text),
        undone=item.undone,
    )  # fmt: skip


def cut(text: str, limit: int) -> str:
    """At most so many bytes of a text, cut at a character."""
    return text if len(text) * 4 <= limit else text[:limit].encode()[:limit].decode("utf-8", "ignore")
