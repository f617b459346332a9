"""Hits with the messages around them (`search -C N`); the one that matches has its reference and a `>`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sesamectl.render import clean, heading
from sesamectl.render.search import describe_missing, quote, result_lines, without_label
from sesamectl.render.terminal import Terminal


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """An answer with such hits."""
    yield from result_lines({**answer, "results": answer["hits"]}, terminal, _window)


def _window(hit: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    meta = hit["meta"]
    yield from heading.lines(meta, terminal, list(describe_missing(hit)))
    for item in hit["window"]:
        is_hit = item["msgIdx"] == hit["msgIdx"]
        reference = f"{heading.short_id(meta)}:{int(item['msgIdx'])} {clean(item.get('toolName') or item['role'])}"
        text = " ".join(clean(item["snippet"]).split()) + (" …" if item["truncated"] else "")
        text, _ = without_label(text, [], item)
        ranges = _find_words(text, hit["matchedWords"]) if is_hit else []
        yield from quote(reference, text, ranges, terminal, "> " if is_hit else heading.INDENT)


def _find_words(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words stand as they were typed: the answer says which are there, not where."""
    lowered, found = text.casefold(), list[tuple[int, int]]()
    if len(lowered) != len(text):
        return []
    for word in {clean(word).casefold() for word in words} - {""}:
        place = lowered.find(word)
        while place >= 0:
            found.append((place, place + len(word)))
            place = lowered.find(word, place + len(word))
    return sorted(found)
