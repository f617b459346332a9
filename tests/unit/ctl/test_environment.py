"""The file of variables for the command that a timer runs."""

import os
from pathlib import Path

import pytest

from sesamectl.errors import RefusedError
from sesamectl.service.environment import MAX_BYTES, OpenToOthersError, read_environment


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.env"
    path.touch(0o600)
    return path


def test_what_is_read(file: Path) -> None:
    """Names and values, with or without `export` and quotes; nothing is expanded, and the last one counts."""
    file.write_text(
        "\ufeff# a comment\n; another\n\nexport KEY='sk a b'\nPATH = /a:/b\r\nEMPTY=\nRAW=$HOME `x` # y\nKEY2=\"q'\"\nODD='\nA=1\nA=2"
    )
    assert read_environment(str(file)) == {
        "KEY": "sk a b", "PATH": "/a:/b", "EMPTY": "", "RAW": "$HOME `x` # y", "KEY2": "q'", "ODD": "'", "A": "2",
    }  # fmt: skip


@pytest.mark.parametrize("line", ["sk-secret", "1A=sk-secret", "A B=sk-secret", "A=sk-secret\0", "=sk-secret"])
def test_what_is_no_variable(file: Path, line: str) -> None:
    """The line is named, and nothing of it is told."""
    file.write_text(f"A=1\n{line}\n")
    with pytest.raises(RefusedError, match=r"model\.env: line 2 is not NAME=value") as caught:
        read_environment(str(file))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_it_must_be_private(file: Path, mode: int) -> None:
    """It may hold keys."""
    file.chmod(mode)
    with pytest.raises(OpenToOthersError, match=rf"open to other users \(mode {mode:o}\).*`chmod go= "):
        read_environment(str(file))


def test_what_is_no_file(file: Path, tmp_path: Path) -> None:
    """In a line; a link is followed, as dotfiles often are."""
    (tmp_path / "link").symlink_to(file)
    assert read_environment(str(tmp_path / "link")) == {}
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    os.mkfifo(tmp_path / "fifo", 0o600)
    for path, why in (
        ("none", "No such file"),
        ("fifo", "no regular file"),
        (".", "irectory"),
        ("model.env", "larger"),
    ):
        with pytest.raises(RefusedError, match=why):
            read_environment(str(tmp_path / path))


def test_it_belongs_to_the_user(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else could change is not taken."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(RefusedError, match="belongs to somebody else"):
        read_environment(str(file))
