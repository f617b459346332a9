"""Sessions for people: a list of them, and one with its messages."""

from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.render import clean, clean_lines, label, number
from sesamectl.render.terminal import BOLD, DIM, MARK, Terminal, columns, fit, wrap

TOOL_LINES = 12  # of a tool call that is not shown in full
INDENT = "  "
MIN_NAME = 8
FLAGS = {"subagent": "subagent", "archived": "archived", "file gone": "gone"}


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A list of sessions."""
    sessions, total = answer["sessions"], answer["total"]
    yield f"{number(total, 'session')}, newest first" if total else "No sessions"
    for session in sessions:
        yield ""
        yield from summary(session, terminal)
    if answer.get("nextOffset"):
        yield ""
        yield f"{total - int(answer['nextOffset'])} more: --offset {int(answer['nextOffset'])}"
    if warnings := answer.get("warnings"):
        yield ""
        yield from (f"Warning: {clean(warning)}" for warning in warnings)


def changes(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """Sessions that changed or were removed, and how to go on from there."""
    sessions, removed = answer["sessions"], answer["removed"]
    if not (sessions or removed):
        yield "No changes"
    for gone in removed:
        yield f"  {clean(gone['sessionId'])} - {clean(gone['why'])} ({clean(gone['key'])})"
    for session in sessions:
        yield from summary(session, terminal)
    yield ""
    following = f"sesamectl list --changed-since {int(answer['revision'])} --epoch {clean(answer['epoch'])}"
    yield terminal.paint(DIM, f"{'More' if answer['more'] else 'Next'}: {following}")


def summary(session: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A session in two lines."""
    identity, date = clean(session["sessionId"]), clean(session["modified"])[:10]
    name = label(session)
    if name and terminal.width:
        name = fit(name, max(MIN_NAME, terminal.width - columns(f"  {identity} () - {date}")))
    named = f" ({terminal.paint(BOLD, name)})" if name else ""
    yield f"  {identity}{named} - {date}"
    yield terminal.paint(DIM, f"    {_about(session)}")


def _about(session: Mapping[str, Any]) -> str:
    place = clean(session.get("cwd") or "no directory")
    branch = f" on {clean(session['gitBranch'])}" if session.get("gitBranch") else ""
    flags = [word for word, flag in FLAGS.items() if session.get(flag)]
    return ", ".join([clean(session["source"]), f"{place}{branch}", number(session["messageCount"], "message"), *flags])


def page_lines(answer: Mapping[str, Any], terminal: Terminal, *, full: bool) -> Iterator[str]:
    """A session and a page of its messages."""
    meta, page = answer["session"], answer["messages"]
    identity = clean(meta["sessionId"])
    yield terminal.paint(BOLD, clean(meta.get("name") or identity))
    yield f"{identity}: {_about(meta)}"
    yield f"{_minute(meta['created'])} to {_minute(meta['modified'])}"
    for message in page["messages"]:
        yield ""
        yield from _message(message, terminal, full=full)
    yield from _rest(identity, page, terminal)


def _message(message: Mapping[str, Any], terminal: Terminal, *, full: bool) -> Iterator[str]:
    what = clean(message["role"]) if message["kind"] == "message" else f"tool {clean(message.get('toolName'))}"
    failed = terminal.paint(MARK, " failed") if message.get("isError") else ""
    failed += " (undone)" if message.get("undone") else ""
    when = f" {_minute(message['timestamp'])}" if message.get("timestamp") else ""
    yield f"#{int(message['msgIdx'])} {terminal.paint(BOLD, what)}{failed}{terminal.paint(DIM, when)}"
    text = clean_lines(message["text"])
    shown = text if full or message["kind"] == "message" else text[:TOOL_LINES]
    for line in shown:
        spans = wrap(line, terminal.width - len(INDENT)) if terminal.width else [(0, len(line))]
        yield from (f"{INDENT}{line[begin:end]}".rstrip() for begin, end in spans)
    if len(shown) < len(text):
        yield terminal.paint(DIM, f"{INDENT}({len(text) - len(shown)} more lines; --all shows them)")
    if message.get("truncated"):
        yield terminal.paint(DIM, f"{INDENT}(text truncated)")


def _rest(identity: str, page: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    messages, total = page["messages"], page["total"]
    yield ""
    if not messages:
        yield f"No messages in this range; the session has {total}."
        return
    first, last = int(messages[0]["msgIdx"]), int(messages[-1]["msgIdx"])
    more = f" Next: sesamectl show {identity} --offset {int(page['nextOffset'])}" if page.get("nextOffset") else ""
    yield terminal.paint(DIM, f"Messages {first} to {last} of {total}.{more}")


def _minute(time: object) -> str:
    return clean(time)[:16].replace("T", " ") + " UTC"
