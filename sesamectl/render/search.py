"""A search's answer for people: `[score] id (name) - date`, then the quote with what matched in it."""

from __future__ import annotations

from sesamectl.render import clean, clean_ranges, join_clean, label, number, pending
from sesamectl.render.terminal import BOLD, DIM, columns, fit, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.render.terminal import Terminal

INDENT, NARROW_INDENT = 9, 2
NARROW = 60  # columns
MIN_NAME = 8
FIELDS = {
    "cwd": "directory",
    "gitBranch": "branch",
    **{name: name for name in ("title", "summary", "description", "tags")},
}
KNOWN = ("chunks", "forms", "headings")  # the counts of a word; it is nowhere when all of them are 0


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A search's answer; on a terminal, also how to read the first hit."""
    yield from result_lines(answer, terminal)
    if terminal.width and (hits := answer.get("results")):
        yield ""
        yield terminal.paint(DIM, f"Read on: sesamectl show {_read_on(hits[0])}")


def result_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """The hits, and notes on how far to trust them."""
    yield _headline(answer)
    for hit in answer.get("results", ()):
        yield ""
        yield from _hit(hit, terminal)
    if notes := [*_format_rest(answer), *_notes(answer)]:
        yield ""
        yield from notes


def _headline(answer: Mapping[str, Any]) -> str:
    count, query = answer.get("resultCount", 0), clean(answer.get("query", ""))
    total = answer.get("total") or count
    if not total:
        return f'No session matches "{query}"' if query.strip(" *") else "No sessions"
    found = number(total, "session") if answer.get("totalExact", True) else f"at least {number(total, 'session')}"
    found = f"Found {count} of {found}" if 0 < count < total else f"Found {found}"
    found = f'{found} matching "{query}"' if query.strip(" *") else f"{found}, newest first"
    return found if count else f"{found}, but none in this range"


def _format_rest(answer: Mapping[str, Any]) -> Iterator[str]:
    """How to see what is not shown."""
    if (following := answer.get("nextOffset")) is not None:
        more = f"{int(answer['total']) - int(following)} more" if answer.get("totalExact") else "More"
        yield f"{more}: --offset {int(following)}"
    folded = [hit for hit in answer.get("results", ()) if hit.get("similar") or hit.get("subagents")]
    if folded and "total" in answer:
        kinds = [("similar sessions", "similar"), ("subagents", "subagents")]
        what = " and ".join(name for name, field in kinds if any(hit.get(field) for hit in folded))
        yield f"To see {what} of a hit, repeat the search with its id: --similar-to {clean(folded[0].get('sessionId'))}"


def _hit(hit: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    score, session = f"  [{hit.get('score', 0):.2f}]", clean(hit.get("sessionId"))
    date = f"{clean(hit.get('created'))[:10]}{' (file gone)' if hit.get('gone') else ''}"
    date += " (undone)" if (hit.get("match") or {}).get("undone") else ""
    date += "".join(_format_folded(hit))
    name = label(hit)
    if name and terminal.width:
        name = fit(name, max(MIN_NAME, terminal.width - columns(f"{score} {session} () - {date}")))
    named = f" ({terminal.paint(BOLD, name)})" if name else ""
    yield f"{terminal.paint(DIM, score)} {session}{named} - {date}"
    yield from _quote(hit, terminal)


def _format_folded(hit: Mapping[str, Any]) -> Iterator[str]:
    """Sessions that are folded into this hit."""
    if similar := hit.get("similar"):
        yield f" (+{int(similar)} similar)"
    if subagents := hit.get("subagents"):
        yield f" (+{number(int(subagents), 'subagent')})"


def _quote(hit: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    indent = INDENT if not 0 < terminal.width < NARROW else NARROW_INDENT
    yield from _quote_lines(hit, terminal, indent)
    if place := _place(hit):
        yield " " * indent + terminal.paint(DIM, place)
    if missing := hit.get("missingWords"):
        yield " " * indent + terminal.paint(DIM, f"missing: {join_clean(missing)}")


def _quote_lines(hit: Mapping[str, Any], terminal: Terminal, indent: int) -> Iterator[str]:
    text, ranges = clean_ranges(str(hit.get("matchedSnippet") or ""), hit.get("highlights") or ())
    if not text.strip():
        return
    lead = len(text) - len(text.lstrip()) - 1  # the opening quote replaces one
    text, ranges = f'"{text.strip()}"', [(begin - lead, end - lead) for begin, end in ranges]
    spans = wrap(text, terminal.width - indent) if terminal.width else [(0, len(text))]
    for begin, end in spans:
        yield " " * indent + terminal.mark(text, begin, end, ranges)


def _place(hit: Mapping[str, Any]) -> str:
    """Where the quote is, unless it is a message of the session itself."""
    match = hit.get("match") or {}
    inside = f"in its {FIELDS.get(str(match.get('field')), 'heading')}" if match.get("kind") == "heading" else ""
    if match.get("sessionId") not in (None, hit.get("sessionId")):
        number = "" if match.get("msgIdx") is None else f"message {int(match['msgIdx'])}"
        inside = ", ".join(filter(None, (f"in subagent {clean(match.get('sessionId'))}", number, inside)))
    return inside


def _read_on(hit: Mapping[str, Any]) -> str:
    """What to give `sesamectl show`: the session that really contains the match."""
    match = hit.get("match") or {}
    around = f" --around {int(match['msgIdx'])}" if match.get("msgIdx") else ""
    return f"{clean(match.get('sessionId') or hit.get('sessionId'))}{around}"


def _notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """How far to trust the answer."""
    corrected = answer.get("corrected", {})
    for word, instead in corrected.items():
        yield f"Searched for {clean(instead)} instead of {clean(word)}."
    if dropped := answer.get("dropped"):
        yield f"Ignored: {join_clean(dropped)}."
    if unknown := [
        w["word"] for w in answer.get("words", ()) if not any(map(w.get, KNOWN)) and w["word"] not in corrected
    ]:
        yield f"Not in the index: {join_clean(unknown)}."
    if filtered := answer.get("filteredOut"):
        yield f"Without the filters: {number(int(filtered), 'session')}."
    if answer.get("weak"):
        yield "Weak match: even the best hit is hardly about this."
    if answer.get("pending", {}).get("files"):
        yield f"Not yet searchable: {pending(answer['pending'])}."
    for warning in answer.get("warnings", ()):
        yield f"Warning: {clean(warning)}"


def no_sessions(status: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    """What to print where there is nothing to search."""
    yield "There are no sessions on this machine yet. These directories were checked:"
    for source in status["sources"]:
        missing = " (missing)" if source["mode"] == "missing" else ""
        yield f"  {clean(source['parser']):<8} {clean(source['path'])}{missing}"
    yield "They show up as soon as an agent writes there. To add directories, edit the file that `sesamectl config` names."
    yield "To try a search without them: sesamectl demo"
