"""What a project is called on every machine."""

from pathlib import Path

import pytest

from sesamed.hub.identity import Remotes, find_remote, find_remotes, identify, normalise


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


WRITTEN = r"""
[core]
	bare = false
[Remote "b \"x\""] ; of old
	fetch = +refs/*
	URL = "git@example.org:b;1" # not this
	url = git@example.org:\
b2.git
[remote.dotted]	url=git@example.org:dotted
[remote "origin"] url = git@example.org:me/app.git
	pushurl = git@example.org:me/pushed.git
#	url = git@example.org:commented
[branch "origin"]
	url = git@example.org:no/remote
"""


def test_a_configuration_is_read_as_git_reads_it(tmp_path: Path) -> None:
    """Every address of every remote, that by which a project is called first."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text(WRITTEN.replace("\n", "\r\n", 3))
    assert find_remotes(str(tmp_path)) == Remotes(
        [f"example.org/{name}" for name in ("me/app", "b;1", "b2", "dotted", "me/pushed")]
    )


def test_what_a_configuration_includes_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From where it stands, or from home. What is included for some directories only never names the project. And behind a link."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    put(tmp_path / "kept", ORIGIN)
    with open(tmp_path / "kept/config", "a") as config:
        config.write(
            '[include]\n path = more/one.inc\n path = missing\n path = config\n[includeIf "gitdir:/x/"]\n path = ~/two.inc\n'
        )
    for name, text in (("kept/more/one.inc", "upstream"), ("home/two.inc", "origin")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'[remote "{text}"]\n\turl = git@example.org:{text}\n')
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").symlink_to("../kept/config")
    found = find_remotes(str(tmp_path))
    assert (found.addresses[0], found.are_all) == ("example.org/me/app", False)  # it includes itself
    (tmp_path / ".git/config").unlink()
    (tmp_path / ".git").rmdir()
    (tmp_path / ".git").symlink_to("kept")
    (tmp_path / "kept/config").write_text((tmp_path / "kept/config").read_text().replace(" path = config\n", ""))
    assert find_remotes(str(tmp_path)) == Remotes(["example.org/upstream", "example.org/me/app", "example.org/origin"])


@pytest.mark.parametrize("broken", ["a directory", "too large", "a link to nowhere", "a worktree of nothing", "none"])
def test_what_cannot_be_read_may_have_any_remote(tmp_path: Path, broken: str) -> None:
    config = tmp_path / ".git/config"
    if broken == "a worktree of nothing":
        (tmp_path / ".git").write_text("gitdir: /nowhere/.git/worktrees/x\n")
    else:
        config.parent.mkdir()
    if broken == "a directory":
        config.mkdir()
    elif broken == "too large":
        config.write_text("#" * (1 << 20) + '\n[remote "origin"]\n\turl = git@example.org:late\n')
    elif broken == "a link to nowhere":
        config.symlink_to("/nowhere")
    assert find_remotes(str(tmp_path)) == Remotes([], are_all=False)


def test_a_worktree_has_the_remotes_of_its_repository(tmp_path: Path) -> None:
    put(tmp_path / "app/.git", ORIGIN)
    place = tmp_path / "app/.git/worktrees/x"
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..\n")
    (tmp_path / "x").mkdir()
    (tmp_path / "x/.git").write_text(f"gitdir: {place}\n")
    assert find_remotes(str(tmp_path / "x")) == Remotes(["example.org/me/app"])
    assert find_remotes("x") == Remotes([])
