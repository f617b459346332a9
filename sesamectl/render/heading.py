"""A session in two lines by which a person tells it from others: id and name; then last activity, agent, directory, branch, size."""

from __future__ import annotations

import os
import time

from sesamectl.render import clean, join_clean, number
from sesamectl.render.dates import ago
from sesamectl.render.terminal import BOLD, DIM, columns, fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from sesamectl.render.terminal import Terminal

INDENT = "  "
GAP = "  "
MIN_NAME = 8  # columns
MAX_DIRECTORY = 40  # columns
MIN_NOTE = 24  # columns: `since 2026-01-31 12:00` has room
MAIN_BRANCHES = ("", "main", "master", "trunk", "HEAD")
FLAGS = {"subagent": "subagent", "archived": "archived", "file gone": "gone"}
NO_NAME = "(no name)"


def lines(session: Mapping[str, Any], terminal: Terminal, notes: Sequence[str] = ()) -> Iterator[str]:
    """The two lines; `notes` end the second one."""
    identity, name = short_id(session), clean(session.get("name") or "") or NO_NAME
    if terminal.width:
        name = fit(name, max(MIN_NAME, terminal.width - columns(identity) - len(GAP)))
    yield f"{identity}{GAP}{terminal.paint(BOLD, name)}"
    yield INDENT + terminal.paint(DIM, about(session, terminal.width and terminal.width - len(INDENT), notes))


def short_id(session: Mapping[str, Any]) -> str:
    """The id as it is typed; an older daemon only has the whole one."""
    return clean(session.get("shortId") or session.get("sessionId"))


def about(session: Mapping[str, Any], width: int, notes: Sequence[str] = ()) -> str:
    """Last activity, agent, directory, branch, messages, and what else there is to say, in so many columns (0: any number).

    What has no room goes in this order: the ends of long notes, the upper directories, the branch, the messages, the agent.
    """
    when, agent = (
        ago(clean(session.get("modified") or session.get("created")), time.time()),
        clean(session.get("source") or ""),
    )
    directory, branch = shorten_home(clean(session.get("cwd") or "")), clean(session.get("gitBranch") or "")
    branch = "" if branch in MAIN_BRANCHES else f"on {branch}"
    messages = number(int(session.get("messageCount") or 0), "message")
    tags = [f"tags: {join_clean(session['tags'])}"] if session.get("tags") else []
    rest = [*_flags(session), *tags, *notes]
    if not width:
        return _join(when, agent, directory, branch, messages, *rest)
    shorter, shortest = _fit_path(directory, MAX_DIRECTORY), _fit_path(directory, 1)
    ways = (
        (agent, shorter, branch, messages),
        (agent, shortest, branch, messages),
        (agent, shorter, messages),
        (agent, shortest, messages),
        (agent, shortest),
        (shortest,),
    )
    short = [*_flags(session), *(fit(note, max(MIN_NOTE, width // 3)) for note in (*tags, *notes))]
    joined = [_join(when, *ways[0], *rest), *(_join(when, *way, *short) for way in ways)]
    return next((line for line in joined if columns(line) <= width), fit(joined[-1], width))


def _flags(session: Mapping[str, Any]) -> Iterator[str]:
    """What is special about it; of a subagent whose parent is not in the index, that."""
    for word, flag in FLAGS.items():
        if flag == "subagent" and session.get("orphan"):
            yield f"subagent of {clean(session.get('parentSessionId'))[:8]}…, which is not indexed"
        elif session.get(flag):
            yield word
    if person := session.get("person"):
        yield f"of {clean(person)} on {clean(session.get('workstation'))}"
    if as_of := session.get("asOf"):
        yield f"shipped {ago(clean(as_of), time.time())}"


def _join(*parts: str) -> str:
    return GAP.join(part for part in parts if part)


def shorten_home(path: str) -> str:
    """A path with `~` for the user's own directory."""
    home = os.environ.get("HOME", "").rstrip("/")
    return f"~{path[len(home) :]}" if home and (path == home or path.startswith(f"{home}/")) else path


def _fit_path(path: str, width: int) -> str:
    """The path without the directories on its left that have no room, but with its last part."""
    separator = "/" if "/" in path else "\\"
    first, *parts = path.split(separator)
    if columns(path) <= width or not parts or (len(parts) == 1 and len(first) < len("…") + 1):
        return path
    while len(parts) > 1 and columns(separator.join(("…", *parts))) > width:
        parts.pop(0)
    return separator.join(("…", *parts))
