"""Where things are, and that they are ours alone."""

import os
import pwd
import stat
from pathlib import Path

import pytest

from sesamed import paths
from sesamed.errors import ConfigError
from sesamed.paths import Paths


def _mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_defaults_are_the_xdg_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configuration and data are where XDG puts them when nothing says otherwise."""
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/disk/data")
    found = paths.find({})
    assert found.config_file == "/home/ada/.config/sesame/config.jsonc"
    assert found.database == "/disk/data/sesame/index.sqlite"


def test_each_place_can_be_named() -> None:
    """SESAME_* name each place; the socket is in the runtime directory unless it is named too."""
    environ = {"SESAME_CONFIG_DIR": "/c", "SESAME_DATA_DIR": "/d/", "SESAME_RUNTIME_DIR": "/r"}
    assert paths.find(environ) == Paths(config_dir="/c", data_dir="/d", runtime_dir="/r", socket="/r/sesamed.sock")
    assert paths.find({**environ, "SESAME_SOCKET": "/s/x.sock"}).runtime_dir == "/r"


def test_a_named_socket_brings_its_directory() -> None:
    """With SESAME_SOCKET alone, the runtime directory is the socket's."""
    found = paths.find({"SESAME_SOCKET": "/s/x.sock"})
    assert (found.socket, found.runtime_dir) == ("/s/x.sock", "/s")


def test_empty_means_unset() -> None:
    """An empty variable counts as none."""
    assert paths.find({"SESAME_DATA_DIR": ""}) == paths.find({})


@pytest.mark.parametrize("name", ["SESAME_CONFIG_DIR", "SESAME_DATA_DIR", "SESAME_RUNTIME_DIR", "SESAME_SOCKET"])
def test_a_relative_place_is_refused(name: str) -> None:
    """A relative path would be another one for daemon and client."""
    with pytest.raises(ConfigError, match=f"{name} is 'here', which is not an absolute path"):
        paths.find({name: "here"})


@pytest.mark.fault(102)
def test_a_uid_without_home_is_told_what_to_set(tmp_path: Path) -> None:
    """A uid that passwd does not know is an error that says what to do."""
    with pytest.raises(ConfigError, match=r"uid 4123456789 has no home .* SESAME_RUNTIME_DIR"):
        paths.default_runtime_dir(4123456789, str(tmp_path))


def test_the_socket_fits_into_a_socket_address() -> None:
    """103 bytes are the most that every platform binds; bytes, not characters."""
    longest = "/" + "x" * 102
    assert paths.find({"SESAME_SOCKET": longest}).socket == longest
    for path in (longest + "x", "/" + "ü" * 52):
        with pytest.raises(
            ConfigError, match="more than the 103 that can be bound; set SESAME_RUNTIME_DIR or SESAME_SOCKET"
        ):
            paths.find({"SESAME_SOCKET": path})


def test_home_follows_the_environment_then_passwd() -> None:
    """`~` is HOME where that is an absolute path."""
    assert paths.home({"HOME": "/home/ada/"}) == "/home/ada"
    assert paths.home({"HOME": "ada"}) == paths.home({}) == os.path.normpath(pwd.getpwuid(os.geteuid()).pw_dir)


def test_a_private_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    """The directory is 0700 from the start."""
    paths.make_private(str(tmp_path / "a/b"))
    assert _mode(tmp_path / "a/b") == 0o700


def test_our_open_directory_is_closed(tmp_path: Path) -> None:
    """What is ours and merely too open is tightened, not refused."""
    tmp_path.chmod(0o755)
    paths.make_private(str(tmp_path))
    assert _mode(tmp_path) == 0o700


OURS = Paths(config_dir="/c", data_dir="/d", runtime_dir="/r", socket="/r/x.sock").owns


@pytest.mark.parametrize(
    ("mode", "names", "why"),
    [
        (0o1777, [], "is shared with other users"),
        (0o1777, ["x.sock.lock", "x.sock"], "is shared with other users"),
        (0o755, [".bashrc", "x.sock.lock"], "contains files of other programs .'.bashrc'."),
        (0o755, ["a\nb", "c"], r"contains files of other programs .'a\\nb', \.\.\.."),
        (0o777, [], "can be written by all users"),
        (0o777, ["start.lock", "sesamed.log"], "can be written by all users"),
    ],
)
def test_a_directory_that_others_use_is_refused(tmp_path: Path, mode: int, names: list[str], why: str) -> None:
    """It stays as it is: whoever uses it would be locked out."""
    for name in names:
        (tmp_path / name).touch()
    tmp_path.chmod(mode)
    with pytest.raises(ConfigError, match=f"{why}.*, so it is not made private; use a directory that is only sesame's"):
        paths.make_private(str(tmp_path), OURS)
    assert _mode(tmp_path) == mode
    tmp_path.chmod(0o700)
    paths.make_private(str(tmp_path), OURS)  # a private one may have other files in it


def test_a_home_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that is empty."""
    tmp_path.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="is a home directory"):
        paths.make_private(str(tmp_path), OURS)
    assert _mode(tmp_path) == 0o755


def test_our_used_directory_is_closed(tmp_path: Path) -> None:
    """One with nothing in it but what we keep there, whoever opened it."""
    for name in ("x.sock", "x.sock.lock", "x.soc~", "index.sqlite-wal", "index.sqlite.damaged-20260101T000000Z"):
        (tmp_path / name).touch()
    tmp_path.chmod(0o777)
    paths.make_private(str(tmp_path), OURS)
    assert _mode(tmp_path) == 0o700


@pytest.mark.fault(79)
def test_a_link_is_refused(tmp_path: Path) -> None:
    """A symbolic link is refused, and the message says where it leads."""
    (tmp_path / "real").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(ConfigError, match=rf"link is a symbolic link; use the directory itself \({tmp_path}/real\)"):
        paths.make_private(str(tmp_path / "link"))
    assert _mode(tmp_path / "real") == 0o755


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    """A file where the directory should be is refused with its path."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"{tmp_path}/file cannot be made a private directory"):
        paths.make_private(str(tmp_path / "file"))


def test_a_directory_that_cannot_be_closed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk without modes (some USB sticks) the reason is passed on."""

    def refuse(descriptor: int, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(ConfigError, match="cannot be made a private directory: Operation not permitted"):
        paths.make_private(str(tmp_path))


@pytest.mark.fault(79, 102)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_another_owner_is_refused(tmp_path: Path) -> None:
    """A directory of somebody else is refused, however it is closed."""
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(ConfigError, match="belongs to uid 12345, not to you"):
        paths.make_private(str(tmp_path))
