"""A person's dates and directories."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamectl.flags import date, directory, path


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("local", "sent"),
    [
        ("2025-12-15", "2025-12-14T23:00:00.000Z"),
        ("2025-06-15T12:30", "2025-06-15T10:30:00.000Z"),
        ("2025-06-15 12:30:01", "2025-06-15T10:30:01.000Z"),
        ("2025-12-15T10:00:00Z", "2025-12-15T10:00:00.000Z"),
        ("2025-12-15T10:00:00+05:00", "2025-12-15T05:00:00.000Z"),
        ("12h", "12h"),
        ("2w", "2w"),
        ("30min", "30min"),
        ("1mo", "1mo"),
    ],
)
def test_local_dates_are_sent_in_utc(local: str, sent: str) -> None:
    """A local date or time is sent as UTC; a span as it is."""
    assert date(local) == sent


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7y", "2025-13-01", "0001-01-01"])
def test_what_is_no_date(text: str) -> None:
    """Anything else is refused with examples."""
    with pytest.raises(ValueError, match="2025-12-15"):
        date(text)


def test_a_bare_m_is_refused() -> None:
    """It could be minutes or months."""
    with pytest.raises(ValueError, match="30m: write 30min or 30mo"):
        date("30m")


def test_the_current_directory_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is below it; whole paths are what they are."""
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    assert (directory("."), path("./a/")) == (str(tmp_path / "x"), f"{tmp_path}/x/a/")
    (tmp_path / "x").rmdir()
    for convert, text in ((directory, "."), (path, "./a")):
        with pytest.raises(ValueError, match="is below the current directory, which does not exist any more"):
            convert(text)
    assert (directory("/a/.."), path("b")) == (os.sep, "b")
