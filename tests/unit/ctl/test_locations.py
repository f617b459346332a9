"""Where the client looks for the socket."""

import errno
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from sesamectl import locations
from sesamectl.locations import is_private, socket_path
from sesamed import paths


def test_the_variable_comes_first() -> None:
    """SESAME_SOCKET is the socket, whatever else is set."""
    assert socket_path({"SESAME_SOCKET": "/a/b", "SESAME_RUNTIME_DIR": "/c"}) == "/a/b"


def test_the_runtime_directory_comes_second() -> None:
    """In SESAME_RUNTIME_DIR the socket is sesamed.sock."""
    assert socket_path({"SESAME_RUNTIME_DIR": "/c"}) == "/c/sesamed.sock"


@pytest.mark.parametrize("private", [True, False])
def test_then_it_follows_from_the_user(private: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without variables it is below /run/user when that is private, else below the home in passwd."""
    monkeypatch.setattr(locations, "is_private", lambda *_: private)
    uid = os.geteuid()
    home = f"{pwd.getpwuid(uid).pw_dir}/.local/state/sesame/run/sesamed.sock"
    found = socket_path({"HOME": "/elsewhere", "XDG_RUNTIME_DIR": "/elsewhere", "SESAME_SOCKET": ""})
    assert found == (f"/run/user/{uid}/sesame/sesamed.sock" if private else home)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not in passwd is told what to set."""
    monkeypatch.setattr(locations, "is_private", lambda *_: False)
    monkeypatch.setattr(os, "geteuid", lambda: 987_654)
    with pytest.raises(LookupError, match="set SESAME_SOCKET"):
        socket_path({})


@pytest.mark.parametrize(("mode", "private"), [(0o700, True), (0o500, True), (0o750, False), (0o701, False)])
def test_private(directory: str, mode: int, private: bool) -> None:
    """A directory is private when it is the user's and nobody else may enter."""
    os.chmod(directory, mode)
    assert is_private(directory, os.geteuid()) is private
    assert not is_private(directory, os.geteuid() + 1)


def test_what_is_no_directory_is_not_private(directory: str) -> None:
    """Neither a file nor nothing is a private directory."""
    assert not is_private(f"{directory}/none", os.geteuid())
    assert not is_private(__file__, os.stat(__file__).st_uid)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"SESAME_DATA_DIR": "/a/../b/"},
        {"XDG_DATA_HOME": "/x/y"},
        {"XDG_DATA_HOME": " "},
        {"XDG_DATA_HOME": "relative"},
        {"XDG_DATA_HOME": "/x", "SESAME_DATA_DIR": "/d"},
    ],
)
def test_the_data_is_where_the_daemon_keeps_it(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's short way to the data directory leads where the daemon's goes."""
    for name in ("SESAME_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SESAME_RUNTIME_DIR", "/run/x")
    assert locations.data_directory(os.environ) == paths.find(os.environ).data_dir


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOMEM])
def test_a_directory_that_was_chosen_and_cannot_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Both stay with it: in another one nobody would know what was forgotten."""
    stat = os.stat

    def fail(path: str, *more: Any, **named: Any) -> os.stat_result:
        if str(path).endswith("/sessions"):
            raise OSError(number, os.strerror(number), path)
        return stat(path, *more, **named)

    monkeypatch.setattr(os, "stat", fail)
    for chosen in ("", "sesamed"):
        (tmp_path / chosen / "sessions").mkdir(parents=True)
        for choose in (locations.choose_directory, paths.choose_directory):
            assert choose(str(tmp_path)) == str(tmp_path / chosen).rstrip("/")
            assert choose(f"{tmp_path}/none") == f"{tmp_path}/none"
