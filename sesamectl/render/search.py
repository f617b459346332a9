"""A search's answer for people: `[score] id (name) - date`, then the quote with what matched in it."""

from __future__ import annotations

from sesamectl.render import clean, listed, number, pending, quoted
from sesamectl.render.terminal import BOLD, DIM, columns, fitted, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.render.terminal import Terminal

INDENT, NARROW_INDENT = 9, 2
NARROW = 60  # columns
LEAST_NAME = 8


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """The lines of a search's answer; on a terminal, how to read on."""
    yield from found(answer, terminal)
    if terminal.width and (hits := answer.get("results")):
        yield ""
        yield terminal.paint(DIM, f"To read one: sesamectl show {clean(hits[0].get('sessionId'))}{_around(hits[0])}")


def found(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """What was found, and how far it can be trusted."""
    yield _headline(answer)
    for hit in answer.get("results", ()):
        yield ""
        yield from _hit(hit, terminal)
    if notes := list(_notes(answer)):
        yield ""
        yield from notes


def _headline(answer: Mapping[str, Any]) -> str:
    count, query = answer.get("resultCount", 0), clean(answer.get("query", ""))
    if not count:
        return f'No session matches "{query}"' if query.strip(" *") else "No session"
    found = f"Found {count} session{'' if count == 1 else 's'}"
    return f'{found} matching "{query}"' if query.strip(" *") else f"{found}, newest first"


def _hit(hit: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    score, session = f"  [{hit.get('score', 0):.2f}]", clean(hit.get("sessionId"))
    date = f"{clean(hit.get('created'))[:10]}{' (its file is gone)' if hit.get('gone') else ''}"
    date += " (taken back)" if (hit.get("match") or {}).get("undone") else ""
    date += "".join(_more(hit))
    name = clean(hit.get("name") or "")
    if name and terminal.width:
        name = fitted(name, max(LEAST_NAME, terminal.width - columns(f"{score} {session} () - {date}")))
    named = f" ({terminal.paint(BOLD, name)})" if name else ""
    yield f"{terminal.paint(DIM, score)} {session}{named} - {date}"
    yield from _quote(hit, terminal)


def _more(hit: Mapping[str, Any]) -> Iterator[str]:
    """What is folded into a hit."""
    if similar := hit.get("similar"):
        yield f" (+{int(similar)} similar)"
    if subagents := hit.get("subagents"):
        yield f" (+{number(int(subagents), 'subagent')})"


def _quote(hit: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    text, ranges = quoted(str(hit.get("matchedSnippet") or ""), hit.get("highlights") or ())
    if not text.strip():
        return
    lead = len(text) - len(text.lstrip()) - 1  # the opening mark takes the place of one
    text, ranges = f'"{text.strip()}"', [(begin - lead, end - lead) for begin, end in ranges]
    indent = INDENT if not 0 < terminal.width < NARROW else NARROW_INDENT
    spans = wrapped(text, terminal.width - indent) if terminal.width else [(0, len(text))]
    for begin, end in spans:
        yield " " * indent + terminal.marked(text, begin, end, ranges)
    if missing := hit.get("missingWords"):
        yield " " * indent + terminal.paint(DIM, f"without: {listed(missing)}")


def _around(hit: Mapping[str, Any]) -> str:
    match = hit.get("match") or {}
    if match.get("sessionId") != hit.get("sessionId") or not match.get("msgIdx"):
        return ""
    return f" --around {int(match['msgIdx'])}"


def _notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """How far the answer can be trusted."""
    corrected = answer.get("corrected", {})
    for word, instead in corrected.items():
        yield f"Searched for {clean(instead)} instead of {clean(word)}."
    if dropped := answer.get("dropped"):
        yield f"Left out: {listed(dropped)}."
    if unknown := [w["word"] for w in answer.get("words", ()) if not w["chunks"] and w["word"] not in corrected]:
        yield f"Nowhere in the index: {listed(unknown)}."
    if filtered := answer.get("filteredOut"):
        yield f"The filters left out {filtered} that match."
    if answer.get("weak"):
        yield "Even the best of these is hardly about it."
    if answer.get("pending", {}).get("files"):
        yield f"Not yet searchable: {pending(answer['pending'])}."
    for warning in answer.get("warnings", ()):
        yield f"Warning: {clean(warning)}"


def nothing_at_all(status: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    """What to say where there is no session to search in."""
    yield "There are no sessions on this machine yet. These places were looked at:"
    for source in status["sources"]:
        missing = " (not there)" if source["mode"] == "missing" else ""
        yield f"  {clean(source['parser']):<8} {clean(source['path'])}{missing}"
    yield "They are found by themselves once an agent writes there. Other places: `sesamectl config` says where to name them."
    yield "To see what a search is like: sesamectl demo"
