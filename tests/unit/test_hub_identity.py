"""What a project is called on every machine."""

from pathlib import Path

import pytest

from sesamed.hub.identity import find_remote, identify, normalise


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:Acme/App.git", "github.com/acme/app"),
        ("https://github.com/acme/app", "github.com/acme/app"),
        ("https://me:a-token@GitHub.com/Acme/App.git/", "github.com/acme/app"),
        ("ssh://git@ssh.github.com:443/acme/app.git", "github.com/acme/app"),
        ("git://git.example.org/Team//App.git", "git.example.org/Team/App"),  # whose names may differ in case
        ("anna@host:src/app.git", "host/src/app"),
        ("ssh://git@[2001:db8::1]:22/app", "[2001:db8::1]/app"),
        ("https://example.org/app.git?ref=x#y", "example.org/app"),
        ("/srv/git/app.git", None),
        ("../app", None),
        ("file:///srv/git/app.git", None),
        ("C:\\src\\app", None),
        ("C:/src/app", None),
        ("https://example.org/../etc", None),
        ("https://example.org/", None),
        ("", None),
    ],
)
def test_an_address_is_written_in_one_way(url: str, name: str | None) -> None:
    """Without who asks, and without a password."""
    assert normalise(url) == name


def put(directory: Path, *remotes: tuple[str, str]) -> None:
    """A repository's configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f'[remote "{name}"]\n\tfetch = +refs/*\n\turl = {url}\n' for name, url in remotes]
    (directory / "config").write_text("[core]\n\turl = no/remote\n" + "".join(lines))


ORIGIN, UPSTREAM = ("origin", "git@example.org:me/app.git"), ("upstream", "git@example.org:team/app.git")


def test_a_fork_is_called_as_what_it_is_a_fork_of(tmp_path: Path) -> None:
    """By `upstream`, else by `origin`, else by the first that has an address."""
    for remotes, name in (
        ([ORIGIN, UPSTREAM], "example.org/team/app"),
        ([("zz", "git@example.org:z"), ORIGIN], "example.org/me/app"),
        ([("b", "git@example.org:b"), ("a", "/local/a")], "example.org/b"),
        ([("origin", "/local/only")], None),
    ):
        put(tmp_path / ".git", *remotes)
        assert find_remote(str(tmp_path)) == name


@pytest.mark.parametrize("place", [".git", ".bare", "elsewhere/.git/modules/app"])
def test_a_repository_is_found_where_it_is(tmp_path: Path, place: str) -> None:
    """In the directory, bare in it, or where the file `.git` says."""
    put(tmp_path / place, ORIGIN)
    if place.startswith("elsewhere"):
        (tmp_path / ".git").write_text(f"gitdir: {place}\n")
    assert find_remote(str(tmp_path)) == "example.org/me/app"


def test_a_bare_repository_and_a_plain_directory(tmp_path: Path) -> None:
    put(tmp_path / "app.git", ORIGIN)
    assert identify(str(tmp_path / "app.git")) == "example.org/me/app"
    assert identify(str(tmp_path)) == str(tmp_path)
    assert identify(None) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").mkdir()  # no file to read
    assert identify(str(tmp_path)) == str(tmp_path)
