"""How far an answer is about its question: by how much of it the best hit holds, rare words counting more than common ones."""

import math
from collections.abc import Collection

from sesamed.store.search.terms import Term, Terms

# docs/search.md has how often this is right.
ENOUGH = 0.35
MANY_WORDS = 3  # of so many words a single one is a coincidence


def is_weak(terms: Terms, matched: Collection[str]) -> bool:
    """Whether the best hit, which holds these words, is hardly about the question."""
    if len(terms.terms) >= MANY_WORDS and len(matched) <= 1:
        return True
    whole = sum(_weight(term, terms.chunks) for term in terms.terms)
    held = sum(_weight(term, terms.chunks) for term in terms.terms if term.word.text in matched)
    return held < ENOUGH * whole


def _weight(term: Term, chunks: int) -> float:
    return math.log(1 + max(0.0, chunks - term.chunks + 0.5) / (term.chunks + 0.5))
