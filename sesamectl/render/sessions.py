"""Sessions for people: a list of them, and one with its messages."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sesamectl.render import clean, clean_lines, heading, number
from sesamectl.render.dates import minute
from sesamectl.render.terminal import ALARM, BOLD, DIM, MARK, Terminal, wrap

TOOL_LINES = 12  # of a tool call that is not shown in full
INDENT = "  "


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A list of sessions."""
    sessions, total = answer["sessions"], answer["total"]
    yield f"{number(total, 'session')}, newest first" if total else "No sessions"
    for session in sessions:
        yield ""
        yield from heading.lines(session, terminal)
    if answer.get("nextOffset"):
        yield ""
        yield f"{total - int(answer['nextOffset']):,} more: --offset {int(answer['nextOffset'])}"
    if warnings := answer.get("warnings"):
        yield ""
        yield from (f"Warning: {clean(warning)}" for warning in warnings)


def changes(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """Sessions that changed or were removed, and how to go on from there."""
    sessions, removed = answer["sessions"], answer["removed"]
    if not (sessions or removed):
        yield "No changes so far" if answer["more"] else "No changes"
    for gone in removed:
        yield f"  {clean(gone['sessionId'])} - {clean(gone['why'])} ({clean(gone['key'])})"
    for session in sessions:
        yield from heading.lines(session, terminal)
    yield ""
    following = f"sesamectl list --changed-since {int(answer['revision'])} --epoch {clean(answer['epoch'])}"
    yield terminal.paint(DIM, f"{'More' if answer['more'] else 'Next'}: {following}")


def noted(session: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A session, and what was said about it."""
    yield from heading.lines({**session, "tags": ()}, terminal)
    yield from list(_annotations(session, terminal)) or [f"{INDENT}no description, summary or tags"]


def _annotations(session: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for field in ("description", "summary"):
        if text := session.get(field):
            yield from _indented(clean_lines(f"{field.capitalize()}: {text}"), terminal)
    if tags := session.get("tags"):
        yield from _indented([f"Tags: {', '.join(map(clean, tags))}"], terminal)


def page_lines(
    answer: Mapping[str, Any], terminal: Terminal, *, full: bool, asked: int | None = None, branch: str | None = None
) -> Iterator[str]:
    """A session and a page of its messages, of which one may have been asked for."""
    meta, page = answer["session"], answer["messages"]
    name = clean(meta.get("name") or heading.NO_NAME)
    yield from (terminal.paint(BOLD, name[begin:end]) for begin, end in wrap(name, terminal.width or len(name)))
    yield clean(meta["sessionId"])
    yield heading.about({**meta, "tags": ()}, terminal.width, [f"since {minute(clean(meta['created']))}"])
    yield from _annotations(meta, terminal)
    for message in page["messages"]:
        yield ""
        yield from _message(message, terminal, full=full, is_asked=message["msgIdx"] == asked)
    yield from _rest(heading.short_id(meta), page, terminal, asked, branch)


def _message(message: Mapping[str, Any], terminal: Terminal, *, full: bool, is_asked: bool) -> Iterator[str]:
    what = clean(message["role"]) if message["kind"] == "message" else f"tool {clean(message.get('toolName'))}"
    failed = terminal.paint(ALARM, " failed") if message.get("isError") else ""
    failed += " (undone)" if message.get("undone") else ""
    when = f" {minute(clean(message['timestamp']))}" if message.get("timestamp") else ""
    place = terminal.paint(MARK if is_asked else "", f"#{int(message['msgIdx'])}")
    yield f"{'> ' if is_asked else ''}{place} {terminal.paint(BOLD, what)}{failed}{terminal.paint(DIM, when)}"
    text = clean_lines(message["text"])
    shown = text if full or message["kind"] == "message" else text[:TOOL_LINES]
    yield from _indented(shown, terminal)
    if len(shown) < len(text):
        yield terminal.paint(DIM, f"{INDENT}({len(text) - len(shown)} more lines; --all shows them)")
    if message.get("truncated"):
        yield terminal.paint(DIM, f"{INDENT}(this text goes on; --all shows all of it)")


def _indented(lines: Iterable[str], terminal: Terminal) -> Iterator[str]:
    for line in lines:
        spans = wrap(line, terminal.width - len(INDENT)) if terminal.width else [(0, len(line))]
        yield from (f"{INDENT}{line[begin:end]}".rstrip() for begin, end in spans)


def _rest(
    identity: str, page: Mapping[str, Any], terminal: Terminal, asked: int | None, branch: str | None
) -> Iterator[str]:
    messages, total = page["messages"], page["total"]
    yield ""
    if asked is not None and asked >= total and branch is None:
        yield f"There is no message {asked}."
    if not messages:
        yield f"No messages in this range; the {'session' if branch is None else 'branch'} has {total}."
        return
    first, last = int(messages[0]["msgIdx"]), int(messages[-1]["msgIdx"])
    if branch is None:
        yield terminal.paint(DIM, f"Messages {first} to {last} of {total}, counted from 0.")
        if first:
            count = min(first, len(messages))
            yield terminal.paint(DIM, f"Before: sesamectl show {identity} --offset {first - count} --limit {count}")
    else:  # its numbers have gaps
        yield terminal.paint(DIM, f"Messages {first} to {last}: {len(messages)} of the {total} of this branch.")
        identity += f" --branch {clean(branch)}"
    if page.get("nextOffset"):
        yield terminal.paint(DIM, f"Next: sesamectl show {identity} --offset {int(page['nextOffset'])}")
