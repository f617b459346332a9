"""Files beside the index: a line is there to its end, or not at all."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from sesamed.errors import StoreError
from sesamed.model import SessionKey
from sesamed.store import beside

ONE, OTHER = SessionKey("pi", "one"), SessionKey("pi", "other", "2026")


@pytest.fixture
def index(tmp_path: Path) -> str:
    return str(tmp_path / "index.sqlite")


@contextmanager
def little_space() -> Iterator[None]:
    """No file gets longer than this, which fails as on a full disk: a part is written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def read(index: str) -> list[SessionKey]:
    """What the file says."""
    return list(beside.read(index, "some.jsonl", msgspec.json.Decoder(SessionKey).decode))


def test_what_was_appended_is_read(index: str) -> None:
    """In its order; nobody else may read it."""
    assert read(index) == []
    beside.append(index, "some.jsonl", [ONE])
    beside.append(index, "some.jsonl", [OTHER, ONE])
    assert read(index) == [ONE, OTHER, ONE]
    assert Path(beside.path_of(index, "some.jsonl")).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "torn", [b'{"source":"pi","nat', b"\x00\x00\x00", b"[]", b'{"source":1,"native_id":"x"}', b"\xff"]
)
def test_a_torn_line_is_passed_over(index: str, torn: bytes) -> None:
    """And the next one is whole."""
    beside.append(index, "some.jsonl", [ONE])
    with open(beside.path_of(index, "some.jsonl"), "ab") as file:
        file.write(torn)
    assert read(index) == [ONE]
    beside.append(index, "some.jsonl", [OTHER])
    assert read(index) == [ONE, OTHER]


def test_of_what_cannot_be_written_nothing_stays(index: str) -> None:
    """Else the next start would find half of what was refused."""
    beside.append(index, "some.jsonl", [ONE])
    before = Path(beside.path_of(index, "some.jsonl")).read_bytes()
    with (
        pytest.raises(StoreError, match=r"some.jsonl cannot be written: File too large; nothing was changed"),
        little_space(),
    ):
        beside.append(index, "some.jsonl", [ONE, OTHER])
    assert Path(beside.path_of(index, "some.jsonl")).read_bytes() == before
