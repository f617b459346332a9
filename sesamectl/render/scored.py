"""Hits with their scores, one `[score] id (name) - date` each and what it quotes: for `--scores`, and programs that read such lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.render import clean, clean_ranges
from sesamectl.render.search import result_lines
from sesamectl.render.terminal import BOLD, DIM, Terminal, columns, fit, wrap

INDENT, NARROW_INDENT = 9, 2
NARROW = 60  # columns
MIN_NAME = 8


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """An answer with such hits."""
    yield from result_lines(answer, terminal, _hit)


def _hit(hit: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A hit with its whole id and the date of its first activity."""
    score, session, date = f"  [{hit.get('score', 0):.2f}]", clean(hit.get("sessionId")), clean(hit.get("created"))[:10]
    name = clean(hit.get("name") or "")
    if name and terminal.width:
        name = fit(name, max(MIN_NAME, terminal.width - columns(f"{score} {session} () - {date}")))
    named = f" ({terminal.paint(BOLD, name)})" if name else ""
    yield f"{terminal.paint(DIM, score)} {session}{named} - {date}"
    text, ranges = clean_ranges(str(hit.get("matchedSnippet") or ""), hit.get("highlights") or ())
    if text.strip():
        indent = INDENT if not 0 < terminal.width < NARROW else NARROW_INDENT
        lead = len(text) - len(text.lstrip()) - 1  # the opening quote replaces one
        text, ranges = f'"{text.strip()}"', [(begin - lead, end - lead) for begin, end in ranges]
        for begin, end in wrap(text, terminal.width - indent) if terminal.width else [(0, len(text))]:
            yield " " * indent + terminal.mark(text, begin, end, ranges)
