"""How much is shown around a hit."""

from hypothesis import given
from hypothesis import strategies as st

from sesamed.methods.sessions import cut
from sesamed.methods.windows import WINDOW_ITEMS, limit_window

NUMBERS = st.integers(0, 1 << 62)


@given(NUMBERS, NUMBERS)
def test_a_window_is_bounded(before: int, after: int) -> None:
    """As asked for where it fits; else full, and the shorter side is left whole."""
    shown = limit_window(before, after)
    if before + after + 1 <= WINDOW_ITEMS:
        assert shown == (before, after)
    else:
        assert sum(shown) + 1 == WINDOW_ITEMS
        assert min(shown) >= min(before, after, WINDOW_ITEMS // 2 - 1)


@given(st.text(st.characters(codec="utf-8")), st.integers(4, 40))
def test_a_text_is_cut_at_a_character(text: str, limit: int) -> None:
    """What is left is a beginning of the text, as long as it may be."""
    kept = cut(text, limit)
    assert text.startswith(kept)
    assert len(kept.encode()) <= limit
    assert kept == text or len(text[: len(kept) + 1].encode()) > limit
