"""Which project a working directory belongs to."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sesamed.ingest import project
from sesamed.ingest.project import PARENTS, Projects, Verdict, project_of


def _repository(path: Path) -> Path:
    (path / ".git").mkdir(parents=True)
    return path


def _linked(worktree: Path, git_dir: Path, common: str | None = "../..") -> Path:
    worktree.mkdir(parents=True, exist_ok=True)
    git_dir.mkdir(parents=True, exist_ok=True)
    (worktree / ".git").write_text(f"gitdir: {git_dir}\n")
    if common is not None:
        (git_dir / "commondir").write_text(common + "\n")
    return worktree


def test_unknown_stays_unknown() -> None:
    """No directory, no project."""
    assert project_of(None) is None
    assert project_of("") is None


def test_a_directory_without_repository_is_its_own(tmp_path: Path) -> None:
    """Then the project is the directory, normalised."""
    assert project_of(f"/{tmp_path}//x/../y/") == f"{tmp_path}/y"
    assert project_of("/") == "/"


@pytest.mark.parametrize("cwd", ["relative/x", "C:\\work", "~"])
def test_what_is_no_path_here_stays_as_it_is(cwd: str) -> None:
    """A path of another system is not looked up in ours."""
    assert project_of(cwd) == cwd


def test_the_top_of_the_repository(tmp_path: Path) -> None:
    """A directory below a repository belongs to its top, also when it is gone by now."""
    top = _repository(tmp_path / "repo")
    assert project_of(f"{top}/src/deep/gone") == str(top)
    assert project_of(str(top)) == str(top)


def test_the_nearest_repository_counts(tmp_path: Path) -> None:
    """Of two repositories within each other it is the inner one."""
    inner = _repository(_repository(tmp_path / "outer") / "inner")
    assert project_of(f"{inner}/x") == str(inner)


def test_worktrees_are_one_project(tmp_path: Path) -> None:
    """A linked worktree belongs to the main one."""
    main = _repository(tmp_path / "main")
    linked = _linked(tmp_path / "linked", main / ".git/worktrees/linked")
    assert project_of(f"{linked}/src") == str(main)


def test_a_relative_git_dir(tmp_path: Path) -> None:
    """`git worktree` can write relative paths."""
    main = _repository(tmp_path / "main")
    linked = _linked(tmp_path / "linked", main / ".git/worktrees/x")
    (linked / ".git").write_text("gitdir: ../main/.git/worktrees/x\n")
    assert project_of(str(linked)) == str(main)


def test_a_worktree_whose_main_one_is_out_of_reach(tmp_path: Path) -> None:
    """Where the repository cannot be read, its path still says which one it was."""
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.git").write_text("gitdir: /elsewhere/main/.git/worktrees/linked\n")
    assert project_of(f"{tmp_path}/linked") == "/elsewhere/main"


def test_worktrees_of_a_bare_repository(tmp_path: Path) -> None:
    """Worktrees around `.bare` belong to the directory they are in, those of `x.git` to it."""
    hidden = _linked(tmp_path / "p/feature", tmp_path / "p/.bare/worktrees/feature")
    shown = _linked(tmp_path / "q", tmp_path / "x.git/worktrees/q")
    assert project_of(str(hidden)) == f"{tmp_path}/p"
    assert project_of(str(shown)) == f"{tmp_path}/x.git"


def test_a_submodule_is_its_own_project(tmp_path: Path) -> None:
    """A submodule is a repository of its own, whatever it is called, and so is a worktree of one."""
    outer = _repository(tmp_path / "outer")
    plain = _linked(outer / "sub", outer / ".git/modules/sub", None)
    odd = _linked(outer / "worktrees/sub", outer / ".git/modules/worktrees/sub", None)
    linked = _linked(tmp_path / "linked", outer / ".git/modules/sub/worktrees/linked")
    assert [project_of(f"{top}/x") for top in (plain, odd, linked)] == [str(plain), str(odd), str(linked)]


def test_a_git_directory_kept_elsewhere(tmp_path: Path) -> None:
    """`--separate-git-dir` leaves the top where it is."""
    top = _linked(tmp_path / "top", tmp_path / "elsewhere", None)
    assert project_of(str(top)) == str(top)


def test_what_is_no_git_file_is_passed_over(tmp_path: Path) -> None:
    """A pipe, something big, something else: not opened for long, not followed."""
    top = _repository(tmp_path / "top")
    for name, content in (("big", b"gitdir: /x\n" + b" " * 5000), ("else", b"hello"), ("empty", b"")):
        (top / name).mkdir()
        (top / name / ".git").write_bytes(content)
        assert project_of(f"{top}/{name}") == str(top)
    (top / "pipe").mkdir()
    os.mkfifo(top / "pipe/.git")
    assert project_of(f"{top}/pipe") == str(top)


def test_a_pipe_for_a_commondir_holds_nobody_up(tmp_path: Path) -> None:
    """The second file is read as carefully as the first."""
    main = _repository(tmp_path / "main")
    linked = _linked(tmp_path / "linked", main / ".git/worktrees/x", None)
    os.mkfifo(main / ".git/worktrees/x/commondir")
    assert project_of(str(linked)) == str(main)


def test_a_disk_that_fails_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read says nothing."""

    def fail(descriptor: int, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    top = _linked(tmp_path / "linked", tmp_path / "main/.git/worktrees/x")
    with monkeypatch.context() as patched:
        patched.setattr(os, "read", fail)
        found = project_of(str(top))
    assert found == str(top)


def test_a_linked_git_directory_is_one(tmp_path: Path) -> None:
    """`.git` may be a symbolic link to a directory; it is not followed."""
    (tmp_path / "top").mkdir()
    (tmp_path / "top/.git").symlink_to("/nowhere")
    assert project_of(f"{tmp_path}/top/x") == f"{tmp_path}/top"


@pytest.mark.parametrize("cwd", ["/a\0b", "/\ud800", "/" + "x" * 300, "/x" * 5000])
def test_any_text_has_an_answer(cwd: str) -> None:
    """What can be no path stands for itself."""
    assert project_of(cwd) == cwd


def test_the_way_up_is_bounded(tmp_path: Path) -> None:
    """Nobody looks up for ever."""
    top = _repository(tmp_path / "top")
    near = str(top) + "/x" * (PARENTS - 1)
    assert project_of(near) == str(top)
    assert project_of(near + "/x") == near + "/x"


def test_answers_are_remembered(tmp_path: Path) -> None:
    """The same directory is looked up once; of too many the oldest is forgotten."""
    projects = Projects(size=2)
    top = _repository(tmp_path / "top")
    assert projects.of(str(top)) == projects.of(f"{top}/x") == str(top)
    (top / ".git").rmdir()
    assert projects.of(f"{top}/x") == str(top)
    assert projects.of(f"{top}/y") == f"{top}/y"
    assert projects.of(f"{top}/z") == f"{top}/z"
    assert projects.of(f"{top}/x") == f"{top}/x"
    assert projects.of(None) is None


# -- .sesameignore


def _judge(*places: Path) -> list[bool]:
    """Whether the sessions of these directories are excluded."""
    projects = Projects()
    return [projects.judge(str(place)) is not None for place in places]


def test_a_file_in_the_project_excludes(tmp_path: Path) -> None:
    """What began below it; not what began elsewhere."""
    top = _repository(tmp_path / "repo")
    (top / ".sesameignore").touch()
    assert _judge(top, top / "src/gone", tmp_path, tmp_path / "other") == [True, True, False, False]


def test_what_is_no_directory_here_is_not_looked_for() -> None:
    """Paths of other systems, and odd ones."""
    projects = Projects()
    for cwd in ("", "~", "C:\\work", "/a\0b", "/\ud800", "/" + "a/" * 3000, "//", "/a/../.."):
        assert projects.judge(cwd) is None


def _note(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """The paths that a function of `os` is asked for from now on."""
    paths, call = list[str](), getattr(os, name)

    def noting(path: str, *more: Any) -> Any:
        paths.append(path)
        return call(path, *more)

    monkeypatch.setattr(os, name, noting)
    return paths


def test_a_directory_is_asked_once_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions and subdirectories it has; and its file only if there is one, or something was made in it."""
    places = [_repository(tmp_path / f"{number}") for number in range(10)]
    (places[0] / ".sesameignore").touch()
    for place in (tmp_path, *places):
        os.utime(place, (1, 1))
    projects = Projects()
    projects.add(str(place / below) for place in places for below in ("", "a", "a/b"))
    projects.refresh()
    asked = {name: _note(monkeypatch, name) for name in ("stat", "open")}
    projects.refresh()
    monkeypatch.undo()
    assert len(asked["stat"]) == len(set(asked["stat"])) == 30
    assert asked["open"] == [f"{places[0]}/.sesameignore"]
    (places[1] / ".sesameignore").touch()
    projects.refresh()
    assert len(projects.list_excluded()) == 6


def test_what_it_said_counts_while_the_directory_is_away(tmp_path: Path) -> None:
    """Without the directory nobody has removed the file."""
    top = _repository(tmp_path / "repo")
    (top / ".sesameignore").touch()
    projects = Projects()
    projects.add([str(top)])
    projects.refresh()
    top.rename(tmp_path / "away")
    projects.refresh()
    assert projects.list_excluded() == [str(top)]
    revision = projects.revision
    _repository(top)
    projects.refresh()
    assert (projects.list_excluded(), projects.revision) == ([], revision + 1)


def test_what_it_said_of_a_worktree_counts_when_that_is_removed(tmp_path: Path) -> None:
    """As `git worktree remove` does: nothing says any more whose it was, and the main one's file is still there."""
    main = _repository(tmp_path / "main")
    linked = _linked(tmp_path / "linked", main / ".git/worktrees/linked")
    (main / ".sesameignore").touch()
    (linked / "src").mkdir()
    places = [str(linked), str(linked / "src")]
    projects = Projects()
    projects.add(places)
    projects.refresh()
    assert projects.list_excluded() == places
    shutil.rmtree(linked)
    projects.refresh()
    assert projects.list_excluded() == places
    (linked / "src").mkdir(parents=True)  # somebody else's, perhaps
    projects.refresh()
    assert projects.list_excluded() == []


def test_the_file_of_a_removed_worktree_may_go(tmp_path: Path) -> None:
    """Then nothing excludes it."""
    main = _repository(tmp_path / "main")
    linked = _linked(tmp_path / "linked", main / ".git/worktrees/linked")
    (main / ".sesameignore").touch()
    projects = Projects()
    projects.add([str(linked)])
    projects.refresh()
    shutil.rmtree(linked)
    (main / ".sesameignore").unlink()
    projects.refresh()
    assert projects.list_excluded() == []


# -- what cannot be looked at


@contextmanager
def _failing(number: int, names: Iterable[str], *paths: str) -> Iterator[None]:
    """These functions of `os` fail for exactly these paths."""

    def fail(call: Any) -> Any:
        def failing(path: Any, *more: Any, **named: Any) -> Any:
            if path in paths:
                raise OSError(number, os.strerror(number), path)
            return call(path, *more, **named)

        return failing

    with pytest.MonkeyPatch.context() as patched:
        for name in names:
            patched.setattr(os, name, fail(getattr(os, name)))
        yield


def _closed(top: Path, number: int = errno.EACCES) -> Any:
    """A directory that is there, and that nobody can look into: `chmod 000` does nothing to root."""
    return _failing(number, ("open", "lstat"), f"{top}/.git", f"{top}/.sesameignore")


def _away(top: Path, number: int) -> Any:
    """A directory that is below one that nobody can look into, on a disk that fails, …"""
    return _failing(number, ("stat", "open", "lstat"), str(top), f"{top}/.git", f"{top}/.sesameignore")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is looked at for each session in it."""
    monkeypatch.setattr(project, "FRESH_S", 0.0)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("failing", [_closed, _away])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOMEM])
def test_what_cannot_be_looked_at_says_what_it_said(tmp_path: Path, failing: Any, number: int) -> None:
    """That an ignore file cannot be seen is no sign that it is gone; of a directory without one it is no sign that there is one."""
    top, other = _repository(tmp_path / "repo"), _repository(tmp_path / "other")
    (top / ".sesameignore").write_text("/src/\n")
    places = [f"{top}/src", str(top), str(other)]
    projects = Projects()
    projects.add(places)
    projects.refresh()
    revision = projects.revision
    with failing(top, number), failing(other, number):
        projects.refresh()
        assert (projects.list_excluded(), projects.revision) == (places[:1], revision)
        assert [projects.judge(place) is not None for place in places] == [True, False, False]
        assert projects.judge(f"{top}/src/new") == Verdict(f"{top}/.sesameignore")
        assert projects.find_trouble(f"{top}/.sesameignore") == os.strerror(number)
    (top / ".sesameignore").unlink()
    (other / ".sesameignore").touch()
    projects.refresh()
    assert projects.list_excluded() == [str(other)]
    assert projects.find_trouble(f"{top}/.sesameignore") is None


@pytest.mark.parametrize("failing", [_closed, _away])
@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOMEM])
def test_what_it_said_to_an_earlier_daemon_counts(tmp_path: Path, failing: Any, number: int) -> None:
    """This one has seen nothing of it yet."""
    top = _repository(tmp_path / "repo")
    (top / ".sesameignore").touch()
    projects = Projects()
    projects.remember(f"{top}/src", f"{top}/.sesameignore")
    with failing(top, number):
        projects.refresh()
        assert projects.judge(f"{top}/src") is not None
        assert projects.list_excluded() == [f"{top}/src"]
        assert projects.find_trouble(f"{top}/.sesameignore") == os.strerror(number)
    (top / ".sesameignore").unlink()
    projects.refresh()
    assert projects.list_excluded() == []


@pytest.mark.parametrize("failing", [_closed, _away])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOTCONN, errno.ESTALE])
def test_what_could_never_be_looked_at_excludes_nothing(tmp_path: Path, failing: Any, number: int) -> None:
    """Somebody else's directory, or a disk that is never mounted again: nobody has asked to leave its sessions out."""
    top = _repository(tmp_path / "repo")
    projects = Projects()
    with failing(top, number):
        assert [projects.judge(str(place)) for place in (top, top / "src")] == [None, None]
        projects.refresh()
        assert projects.list_excluded() == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("failing", [_closed, _away])
def test_a_machine_that_is_short_of_memory_lets_nothing_in(tmp_path: Path, failing: Any) -> None:
    """That passes, so it is waited for; where it is known that nothing is excluded, for nothing."""
    top, known = _repository(tmp_path / "repo"), _repository(tmp_path / "known")
    (top / ".sesameignore").touch()
    projects = Projects()
    assert projects.judge(str(known)) is None
    with failing(top, errno.ENOMEM), failing(known, errno.ENOMEM):
        for _ in range(2):
            with pytest.raises(OSError, match="memory"):
                projects.judge(f"{top}/src")
            projects.refresh()
        assert projects.judge(str(known)) is None
    assert projects.judge(f"{top}/src") == Verdict(f"{top}/.sesameignore")


def test_a_link_that_cannot_be_seen_leads_where_it_did(tmp_path: Path) -> None:
    """The way of a directory may have been written with one."""
    top, link = _repository(tmp_path / "repo"), tmp_path / "link"
    (top / "src").mkdir()
    (top / ".sesameignore").touch()
    link.symlink_to(top / "src")
    projects = Projects()
    projects.add([str(link)])
    projects.refresh()
    with _failing(errno.ENOMEM, ("lstat", "readlink"), str(link)):
        projects.refresh()
        assert projects.list_excluded() == [str(link)]


def test_what_is_gone_is_gone_whatever_else_cannot_be_seen(tmp_path: Path) -> None:
    """A directory that stays closed holds up no other one, nor a file within it that could be seen."""
    outer = _repository(tmp_path / "outer")
    tops = [_repository(outer / name) for name in ("a", "b")]
    for place in (outer / "plain", *tops):
        place.mkdir(exist_ok=True)
        (place / ".sesameignore").touch()
    projects = Projects()
    projects.add(map(str, (*tops, outer / "plain")))
    projects.refresh()
    assert len(projects.list_excluded()) == 3
    for place in (tops[1], outer / "plain"):
        (place / ".sesameignore").unlink()
    with _closed(tops[0]), _failing(errno.EIO, ("lstat",), f"{outer}/.git"):
        projects.refresh()
        assert projects.list_excluded() == [str(tops[0])]


# -- a `.git` that cannot be read


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A linked worktree, where nothing was made lately; the main one is excluded."""
    main = _repository(tmp_path / "main")
    made = _linked(tmp_path / "linked", main / ".git/worktrees/linked")
    (main / ".sesameignore").touch()
    for place in (main, made):
        os.utime(place, (1, 1))
    return made


@pytest.mark.parametrize("name", ["linked/.git", "git/worktrees/linked/commondir"])
def test_a_worktree_that_could_not_be_read_is_read_by_the_next_look(linked: Path, name: str) -> None:
    """Nothing has changed in its directory since, and all the same nobody goes by what was seen of it."""
    _linked(linked, linked.with_name("git") / "worktrees/linked", f"{linked.with_name('main')}/.git")
    projects = Projects()
    projects.add([str(linked)])
    with _failing(errno.EMFILE, ("open",), f"{linked.parent}/{name}"):
        projects.refresh()
    projects.refresh()
    assert projects.list_excluded() == [str(linked)]
    with _failing(errno.EMFILE, ("open",), f"{linked.parent}/{name}"):
        projects.refresh()
        assert projects.list_excluded() == [str(linked)]


def test_what_an_earlier_daemon_knew_of_a_worktree_counts(linked: Path) -> None:
    """The file that excludes it can be seen; that it is the one of this worktree cannot."""
    projects, by = Projects(), linked.with_name("main") / ".sesameignore"
    projects.remember(str(linked), str(by))
    with _failing(errno.EMFILE, ("open",), f"{linked}/.git"):
        projects.refresh()
        assert projects.list_excluded() == [str(linked)]
        by.unlink()
        projects.refresh()
        assert projects.list_excluded() == []


def test_a_session_in_a_worktree_waits_until_that_can_be_read(linked: Path) -> None:
    """Its project is stored with it, and would be the wrong one for good."""
    projects = Projects()
    with _failing(errno.EMFILE, ("open",), f"{linked}/.git"):
        for ask in (projects.judge, projects.of, projects.of_repository):
            with pytest.raises(OSError, match="open files"):
                ask(str(linked))
        assert project_of(str(linked)) == str(linked)
    assert projects.judge(str(linked)) is not None
    assert projects.of(str(linked)) == projects.of_repository(str(linked)) == str(linked.with_name("main"))


def test_a_project_that_could_only_be_guessed_is_asked_for_again(linked: Path) -> None:
    """A disk may fail for long, so nobody waits for it. That there is no repository is not said of it either: it may have an address."""
    projects = Projects()
    with _failing(errno.EIO, ("open",), f"{linked}/.git"):
        assert projects.of(str(linked)) == projects.of_repository(str(linked)) == str(linked)
    assert projects.of(str(linked)) == str(linked.with_name("main"))
    with _failing(errno.EIO, ("lstat",), f"{linked.parent}/plain/.git"):
        (linked.parent / "plain").mkdir()
        assert projects.of_repository(f"{linked.parent}/plain") == f"{linked.parent}/plain"
    assert projects.of_repository(f"{linked.parent}/plain") is None


@pytest.mark.usefixtures("asked")
def test_a_file_that_is_read_counts_whatever_else_cannot_be(tmp_path: Path) -> None:
    """A worktree of a container says where its repository is there, and that can never be looked at here."""
    top, git_dir = tmp_path / "linked", tmp_path / "git/worktrees/linked"
    _linked(top, git_dir)
    rules = top / ".sesameignore"
    rules.touch()
    projects = Projects()
    projects.add([str(top)])
    with _failing(errno.EACCES, ("open",), f"{git_dir}/commondir"):
        projects.refresh()
        assert projects.list_excluded() == [str(top)]
        rules.write_text("other/\n")
        projects.refresh()
        assert projects.list_excluded() == []
        with _failing(errno.EMFILE, ("open",), str(rules)):
            assert Projects().judge(str(top)) == Verdict(str(rules), is_certain=False)
            fresh = Projects()
            fresh.judge(str(top))
        assert fresh.judge(str(top)) is None
