"""How a terminal's lines become the README's picture."""

import pytest

from docs.picture import COLUMNS, Run, _rows, _svg


def test_a_change_of_style_begins_a_run() -> None:
    """With the column where it stands; a reset ends all styles."""
    line = "found \x1b[1mtwo\x1b[4m words\x1b[0m here"
    runs = [
        Run(0, "found ", ()),
        Run(6, "two", ("bold",)),
        Run(9, " words", ("bold", "underlined")),
        Run(15, " here", ()),
    ]
    assert list(_rows(line)) == [runs]


def test_a_line_that_is_too_long_goes_on_below() -> None:
    """As in a terminal; the style goes on with it."""
    first, second = _rows("\x1b[2m" + "a" * COLUMNS + "bc")
    assert first == [Run(0, "a" * COLUMNS, ("dim",))]
    assert second == [Run(0, "bc", ("dim",))]


@pytest.mark.parametrize("line", ["\x1b[2Kx", "\x1b[95mx", "a\tb"])
def test_what_cannot_be_drawn_is_refused(line: str) -> None:
    """Rather than left out: the picture would show what nobody sees."""
    with pytest.raises((ValueError, KeyError)):
        list(_rows(line))


def test_text_is_escaped() -> None:
    """It may be anything."""
    assert "&lt;b&gt; &amp; &quot;" in "".join(_svg([[Run(0, '<b> & "', ())]]))
