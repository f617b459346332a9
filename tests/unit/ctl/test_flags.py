"""A person's directories."""

import os
from pathlib import Path

import pytest

from sesamectl.cli import main
from sesamectl.flags import COMMANDS, directory, path


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


def test_an_empty_directory_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """`--cwd "$UNSET"` is refused in every command: to some of them the current directory would be what to forget."""
    taking = {name: flag for name, command in COMMANDS.items() for flag in command.flags if flag.metavar == "DIR"}
    assert "forget" in taking
    for name, flag in taking.items():
        assert main([name, "x", f"--{flag.name}", "", *(["--yes"] if name == "forget" else [])]) == 2
        told = f"sesamectl {name}: --{flag.name}: an empty path names no directory; `.` is the current one"
        assert capsys.readouterr().err.startswith(told)
