"""Files of sessions that the daemon stores itself."""

import resource
from pathlib import Path

import pytest

from sesamed.own_sessions import _replace


def test_what_does_not_fit_replaces_nothing(tmp_path: Path) -> None:
    """The system writes as much as there is room for, and calls that no error."""
    path = tmp_path / "a.jsonl"
    _replace(str(path), b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="only 100 of 500 bytes could be written"):
            _replace(str(path), b"x" * 500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"before"
