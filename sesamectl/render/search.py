"""A search's answer for people: hits by which a session is recognised, and what is to be known about the answer."""

from __future__ import annotations

from sesamectl.render import clean, clean_ranges, heading, join_clean, number, passage, pending
from sesamectl.render.terminal import DIM, columns, fit, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from sesamectl.render.terminal import Terminal

    Hit = Callable[[Mapping[str, Any], Terminal], Iterator[str]]

WIDE = 100  # columns
MAX_QUERY = 200  # columns: somebody may have pasted a page
CONTINUED = 2 * heading.INDENT
FIELDS = {
    "cwd": "directory",
    "gitBranch": "branch",
    **{name: name for name in ("title", "summary", "description", "tags")},
    "recallWords": "recall words",
}
LEADS = {  # what words for a time may begin with, and the flag that means the same
    **dict.fromkeys(("from", "on", "in", "during", "over"), "on"),
    **dict.fromkeys(("since", "after"), "after"),
    **dict.fromkeys(("until", "till"), "until"),
    "before": "before",
}
KNOWN = ("chunks", "forms", "headings")  # the counts of a word; it is nowhere when all of them are 0


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A search's answer; on a terminal, also how to read the first hit."""
    hits = answer.get("results")
    read_on = f"To read on: sesamectl show {_reference(hits[0])}" if terminal.width and hits else ""
    yield from result_lines(answer, terminal, last=terminal.paint(DIM, read_on))


def result_lines(
    answer: Mapping[str, Any], terminal: Terminal, show: Hit | None = None, last: str = ""
) -> Iterator[str]:
    """How far to trust the answer, the hits, and what is not shown."""
    for line in (_headline(answer), *_notes(answer)):
        yield from _break(line, terminal)
    for hit in answer.get("results", ()):
        yield ""
        yield from (show or _hit)(hit, terminal)
    if rest := [line for line in (*_format_rest(answer), last) if line]:
        yield ""
        yield from rest


def _break(line: str, terminal: Terminal) -> Iterator[str]:
    """A line for people, as many as it takes."""
    yield from (line[begin:end] for begin, end in wrap(line, terminal.width or len(line)))


def _headline(answer: Mapping[str, Any]) -> str:
    count, query = answer.get("resultCount", 0), clean(answer.get("query", ""))
    total = answer.get("total") or count
    if not total:
        return f"No session matches {_quote_query(query)}" if query.strip(" *") else "No sessions"
    found = number(total, "session") if answer.get("totalExact", True) else f"at least {number(total, 'session')}"
    found = f"Found {count} of {found}" if 0 < count < total else f"Found {found}"
    found = f"{found} matching {_quote_query(query)}" if query.strip(" *") else f"{found}, newest first"
    return found if count else f"{found}, but none in this range"


def _quote_query(query: str) -> str:
    """What was typed, or its beginning; with phrases in it, it has quotes enough."""
    query = fit(query, MAX_QUERY)
    return query if '"' in query else f'"{query}"'


def _format_rest(answer: Mapping[str, Any]) -> Iterator[str]:
    """How to see what is not shown."""
    if (following := answer.get("nextOffset")) is not None:
        more = f"{int(answer['total']) - int(following):,} more" if answer.get("totalExact") else "More"
        yield f"{more}: --offset {int(following)}"
    folded = [hit for hit in answer.get("results", ()) if hit.get("similar") or hit.get("subagents")]
    if folded and "total" in answer:
        kinds = [("similar sessions", "similar"), ("subagents", "subagents")]
        what = " and ".join(name for name, field in kinds if any(hit.get(field) for hit in folded)).capitalize()
        yield f"{what} of a hit: --similar-to {heading.short_id(folded[0])}"


def _hit(hit: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """What the session is, then where it matches and what stands there."""
    yield from heading.lines(hit, terminal, list(_describe_hit(hit)))
    place = _place(hit)
    reference = f"{_reference(hit)} {place}" if (hit.get("match") or {}).get("msgIdx") is not None else place
    text, ranges = clean_ranges(str(hit.get("matchedSnippet") or ""), hit.get("highlights") or ())
    repeats = not ranges and text == clean(hit.get("name"))  # as where nothing was asked for
    if text.strip() and not repeats:
        yield from quote(reference, *without_label(text, ranges, hit.get("match") or {}), terminal)


def without_label(
    text: str, ranges: list[tuple[int, int]], record: Mapping[str, Any]
) -> tuple[str, list[tuple[int, int]]]:
    """What a call says without its tool's name, which the reference has."""
    label = f"tool: {clean(record.get('toolName'))} "
    if not text.startswith(label):
        return text, ranges
    return text[len(label) :], [(begin - len(label), end - len(label)) for begin, end in ranges if begin >= len(label)]


def quote(
    reference: str, text: str, ranges: list[tuple[int, int]], terminal: Terminal, indent: str = heading.INDENT
) -> Iterator[str]:
    """Where it is and what stands there: on one line, or on two where the terminal is not wide."""
    lead, count = f"{reference}{heading.GAP}" if reference else "", 1 if terminal.width >= WIDE else 2
    width = terminal.width - len(indent) - (len(CONTINUED) - len(indent) if count > 1 else 0)
    if terminal.width and columns(lead) > width // 2:
        yield indent + reference
        lead, indent = "", CONTINUED
    room = count * width - columns(lead) if terminal.width else 0
    shown, moved = passage.cut(text, ranges, room)
    while len(spans := list(wrap(lead + shown, width)) if room else [(0, len(lead + shown))]) > count:
        room -= 4  # words that are not divided leave gaps at the ends of lines
        shown, moved = passage.cut(text, ranges, room)
    places = [(begin + len(lead), end + len(lead)) for begin, end in moved]
    for begin, end in spans:
        yield (CONTINUED if begin else indent) + terminal.mark(lead + shown, begin, end, places)


def _describe_hit(hit: Mapping[str, Any]) -> Iterator[str]:
    """What is folded into this hit, and what it lacks."""
    if similar := hit.get("similar"):
        yield f"+{int(similar)} similar"
    if subagents := hit.get("subagents"):
        yield f"+{number(int(subagents), 'subagent')}"
    yield from describe_missing(hit)


def describe_missing(hit: Mapping[str, Any]) -> Iterator[str]:
    """Which words of the query it lacks."""
    if missing := hit.get("missingWords"):
        yield f"missing: {join_clean(missing)}"


def _place(hit: Mapping[str, Any]) -> str:
    """What matches: whose message, which tool's call, or which part of the heading."""
    match = hit.get("match") or {}
    if match.get("kind") == "heading":
        what = FIELDS.get(str(match.get("field")), "heading")
    else:
        what = clean(match.get("toolName") or match.get("role") or "")
    if match.get("sessionId") not in (None, hit.get("sessionId")):
        what = f"{'' if match.get('msgIdx') is not None else _reference(hit) + ' '}{what} of a subagent"
    return f"{what} (undone)" if match.get("undone") else what


def _reference(hit: Mapping[str, Any]) -> str:
    """What to give `sesamectl show`: the session that really contains the match, and the number of the message."""
    match = hit.get("match") or {}
    identity = heading.short_id(match if match.get("sessionId") else hit)
    return identity if match.get("msgIdx") is None else f"{identity}:{int(match['msgIdx'])}"


def _notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """How far to trust the answer."""
    if meant := answer.get("timeFilter"):
        yield _tell_time(meant)
    corrected = answer.get("corrected", {})
    lacking = any(hit.get("missingWords") for hit in answer.get("results", ())[:1])
    if answer.get("weak") and (lacking or not corrected):  # else what was corrected says enough
        yield "Weak match: even the best hit is hardly about this."
    for word, instead in corrected.items():
        yield f"Searched for {clean(instead)} instead of {clean(word)}."
    if dropped := answer.get("dropped"):
        yield f"Ignored: {join_clean(dropped)}."
    if excluded := answer.get("excluded"):
        yield f"Excluded: {join_clean(excluded)}."
    if unknown := [
        w["word"] for w in answer.get("words", ()) if not any(map(w.get, KNOWN)) and w["word"] not in corrected
    ]:
        yield f"Not in the index: {join_clean(unknown)}."
    if filtered := answer.get("filteredOut"):
        yield f"Without the filters: {number(int(filtered), 'session')}."
    if answer.get("pending", {}).get("files"):
        yield f"Not yet searchable: {pending(answer['pending'])}."
    for warning in answer.get("warnings", ()):
        yield f"Warning: {clean(warning)}"


def _tell_time(meant: Mapping[str, Any]) -> str:
    """What became of words for a time at the end of the question."""
    words, days = clean(meant["words"]), clean(meant["days"])
    if meant["effect"] == "acts":
        return f"Only {words}: {days}. With --plain these are words to search for."
    if meant["effect"] == "nothing":
        return f"Nothing {words} ({days}): searched in all times instead."
    lead, _, time = words.partition(" ")
    flag, value = (LEADS[lead], time) if lead in LEADS else ("on", words)
    return f"To list by time: sesamectl list --{flag} '{value}'"


def nothing_yet(_: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """What to print while nobody knows whether there is anything to search."""
    text = "Nothing has been read yet: sessions are still being looked for. Try again in a moment, or wait with `sesamectl index`."
    yield from _break(text, terminal)


def no_sessions(status: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """What to print where there is nothing to search."""
    yield from _break("There are no sessions on this machine yet. These directories were checked:", terminal)
    for source in status["sources"]:
        missing = " (missing)" if source["mode"] == "missing" else ""
        yield f"  {clean(source['parser']):<8} {clean(source['path'])}{missing}"
    more = "They show up as soon as an agent writes there. To add directories, edit the file that `sesamectl config` names."
    yield from _break(more, terminal)
    yield "To try a search without them: sesamectl demo"
