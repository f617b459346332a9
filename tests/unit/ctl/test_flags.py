"""A person's directories."""

import os
from pathlib import Path

import pytest

from sesamectl.flags import directory, path


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
