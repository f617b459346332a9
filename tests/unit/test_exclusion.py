"""What must never be opened."""

import errno
import os
import re
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed import exclusion as module
from sesamed.exclusion import IGNORE_FILE, MOST_BYTES, Exclusion, Ignored, Place

NAMES = st.text(st.sampled_from("ab-!^[]*?.\\\n&~|ü("), min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..")
)
PATHS = st.lists(NAMES, min_size=1, max_size=5).map(lambda names: "/nowhere/" + "/".join(names))


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a/b", "/a/b/c/d.jsonl"),
        ("/a/b/", "/a/b/c"),
        ("/a//./b", "/a/b"),
        ("/a/**", "/a"),
        ("/a/**", "/a/x/y"),
        ("/a/*", "/a/x/y"),
        ("/a/*.jsonl", "/a/x.jsonl"),
        ("/a/**/z", "/a/z"),
        ("/a/**/z", "/a/b/c/z/d"),
        ("/a/**/**/z", "/a/z"),
        ("/a/x**z", "/a/xyz"),
        ("/a/?", "/a/ü"),
        ("/a/[b-d]x", "/a/cx"),
        ("/a/[!b]", "/a/c"),
        ("/a/[^b]", "/a/c"),
        ("/a/[]]", "/a/]"),
        ("/a/[!]", "/a/!"),
        ("/a/[z-a]", "/a/-"),
        ("/a/[id]", "/a/[id]/x"),
        ("/a/[id", "/a/[id"),
        ("/a/x\ny", "/a/x\ny/z"),
        ("/a/x\0y", "/a/x\0y/z"),
        ("secret", "/home/ada/secret/x.jsonl"),
        ("**/secret", "/home/ada/secret/x.jsonl"),
        ("x/secret", "/home/x/secret"),
        ("**", "/a"),
        ("/", "/a"),
    ],
)
def test_excluded(glob: str, path: str) -> None:
    """What a glob matches is excluded, and everything below it."""
    assert Exclusion([glob]).excludes(path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/a/b", "/a/bc"),
        ("/a/b", "/a"),
        ("/a/b", "/x/a/b"),
        ("/a/*/c", "/a/b/b/c"),
        ("/a/*.jsonl", "/a/b/x.jsonl.txt"),
        ("/a?b", "/a/b"),
        ("/a[!x]b", "/a/b"),
        ("/a/[b-d]", "/a/e"),
        ("/a.b", "/axb"),
        ("secret", "/a/secrets"),
    ],
)
def test_not_excluded(glob: str, path: str) -> None:
    """`*`, `?` and sets stay within a name, names match whole, and other characters mean themselves."""
    assert not Exclusion([glob]).excludes(path)


def test_nothing_is_excluded_by_nothing() -> None:
    """Without globs every path may be opened."""
    assert not Exclusion([]).excludes("/a")


def test_several_globs_are_asked_at_once() -> None:
    """One match is enough."""
    assert Exclusion(["/a", "/b|c", "/d"]).excludes("/d/e")
    assert not Exclusion(["/a", "/b|c", "/d"]).excludes("/c")


def test_a_link_does_not_uncover_what_is_excluded(tmp_path: Path) -> None:
    """A glob written with a link on its way excludes the real place as well."""
    (tmp_path / "[real]").mkdir()
    (tmp_path / "link").symlink_to("[real]")
    exclusion = Exclusion([f"{tmp_path}/link/*.jsonl"])
    assert exclusion.excludes(f"{tmp_path}/[real]/x.jsonl")
    assert exclusion.excludes(f"{tmp_path}/link/x.jsonl")


@given(PATHS, st.data())
def test_a_directory_excludes_what_is_below_it(path: str, data: st.DataObject) -> None:
    """A path written as it is excludes itself and all that is below, whatever characters it has."""
    literal = re.sub(r"([*?])", r"[\1]", path) if "[" not in path else path
    exclusion = Exclusion([literal])
    assert exclusion.excludes(path)
    assert exclusion.excludes(path + "/" + data.draw(NAMES))


@given(st.lists(st.text(st.sampled_from("ab/*?[]!^-\\(\n.~"), min_size=1, max_size=12), max_size=4), PATHS)
def test_any_text_is_a_glob(globs: list[str], path: str) -> None:
    """No text fails to compile, and what excludes a path excludes what is below it."""
    exclusion = Exclusion(globs)
    if exclusion.excludes(path):
        assert exclusion.excludes(path + "/below")


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/a/Secret", "/A/sECRET/x.jsonl"),
        ("/a/M\u00fcller", "/a/Mu\u0308ller/x.jsonl"),
        ("/a/mu\u0308ller", "/a/M\u00dcLLER/x.jsonl"),
        ("/a/stra\u00dfe", "/a/STRASSE/x.jsonl"),
        ("**/[A-C]x", "/a/bX"),
        ("**/[A-z]", "/a/_"),
        ("**/\u00e9?", "/a/E\u0301e\u0301"),
        ("/a/[\u00c4]", "/a/a\u0308"),
    ],
)
def test_names_that_the_file_system_takes_for_one(glob: str, path: str) -> None:
    """Where it does; elsewhere they are two."""
    assert Exclusion([glob], folds=True).excludes(path)
    assert Exclusion([glob], folds=False).excludes(path) == (glob == "**/[A-z]")


@pytest.mark.fault(19)
@given(st.text(st.characters(exclude_characters="/*?[", exclude_categories=["Cs"]), min_size=1), st.data())
def test_a_name_in_any_spelling(name: str, data: st.DataObject) -> None:
    """Whatever the file system made of it: composed, decomposed, upper or lower case."""

    def spelled() -> str:
        whole = unicodedata.normalize("NFD" if data.draw(st.booleans()) else "NFC", name)
        return data.draw(st.sampled_from([whole, whole.upper(), whole.lower(), whole.casefold()]))

    assert Exclusion([f"/nowhere/x{spelled()}"], folds=True).excludes(f"/nowhere/X{spelled()}/y")


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    """What it is called in the configuration counts as well as where it is."""
    place = Place("/home/ada/clients/", "/data/7")
    exclusion = Exclusion(["**/clients/*/x.jsonl"], folds=False)
    assert not exclusion.excludes("/data/7/a/x.jsonl")
    exclusion.refresh([place])
    assert exclusion.excludes("/data/7/a/x.jsonl")
    assert not exclusion.excludes("/data/7/a/y.jsonl")
    assert not exclusion.excludes("/data/70/a/x.jsonl")
    exclusion.refresh([Place("/home/ada/other", "/data/7")])
    assert not exclusion.excludes("/data/7/a/x.jsonl")


def test_a_link_that_leads_elsewhere_later(tmp_path: Path) -> None:
    """Is followed anew; only then the revision grows."""
    link = tmp_path / "link"
    link.symlink_to("before")
    exclusion = Exclusion([f"{link}/**"])
    before = exclusion.revision
    exclusion.refresh()
    assert exclusion.revision == before
    link.unlink()
    link.symlink_to("after")
    exclusion.refresh()
    assert exclusion.revision > before
    assert exclusion.excludes(f"{tmp_path}/after/x.jsonl")
    assert not exclusion.excludes(f"{tmp_path}/before/x.jsonl")


# -- .sesameignore

NAMES_BELOW = ("a", "b", "ab", "a.jsonl", "-", "]", "a b", "a ", "!a", "#a", "[a]", "A", "\\a")
PATTERNS = st.text(st.sampled_from("aab*/**?[]!^-\\ #.A"), max_size=7) | st.sampled_from(
    [
        "*.jsonl",
        "!*/",
        "*",
        "/a/*",
        "a/**",
        "**/a",
        "a/**/b",
        "/**",
        "**/",
        "[[:alpha:]]",
        "[[:upper:]b]",
        "[[:x:]]",
        "[[:a]",
        "a/***/b",
        "**\\/a",
        "**/a*/**/b*b",
        "*a*b*",
        "a*/*b",
        "**/*a*b/**/*",
    ]
)


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], set[str]]:
    """Asks git which paths of a small tree such a file excludes. The rules of files are asked, and those of directories."""
    top = tmp_path_factory.mktemp("repository")
    for one in NAMES_BELOW:
        for two in NAMES_BELOW:
            (top / "d" / one / two).mkdir(parents=True) if len(two) > 1 else None
            (top / one / "b").mkdir(parents=True, exist_ok=True)
            (top / one / "b" / two).touch()
    (top / "f.jsonl").touch()
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(top)}

    def run(*arguments: str, data: bytes = b"") -> bytes:
        return subprocess.run(["git", *arguments], cwd=top, input=data, capture_output=True, env=environ).stdout

    run("init", "-q")
    paths = [path for path in sorted(top.rglob("*")) if path.relative_to(top).parts[0] not in (".git", ".gitignore")]
    names = {os.fsencode(path.relative_to(top)): path.is_dir() for path in paths}

    def ask(text: str) -> set[str]:
        (top / ".gitignore").write_text(text)
        said = run("check-ignore", "--no-index", "-z", "--stdin", data=b"".join(name + b"\0" for name in names))
        rules = Ignored(text)
        ours = {
            name for name, is_directory in names.items() if rules.holds(os.fsdecode(name), is_directory=is_directory)
        }
        return {os.fsdecode(name) for name in ours ^ set(said.split(b"\0")[:-1])}

    return ask


@given(
    st.lists(st.tuples(st.sampled_from(["", "", "!", "/"]), PATTERNS).map("".join), max_size=5),
    st.sampled_from(["\n", "\r\n"]),
)
def test_the_syntax_is_gits(git: Callable[[str], set[str]], lines: list[str], newline: str) -> None:
    """Of every file and directory git says the same."""
    assert git(newline.join(lines) + newline) == set()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file of rules."""
    (tmp_path / IGNORE_FILE).write_text("clients/\n*.secret.jsonl\n!b.secret.jsonl\n")
    return tmp_path


def refreshed(root: Path, *, folds: bool = False) -> Exclusion:
    """The exclusion of one root."""
    exclusion = Exclusion(folds=folds)
    exclusion.refresh([Place(str(root), str(root))])
    return exclusion


def test_a_file_at_the_top_of_a_root(root: Path) -> None:
    """Its rules hold below it, and nowhere else."""
    exclusion = refreshed(root)
    assert exclusion.excludes(f"{root}/clients/x/a.jsonl")
    assert exclusion.excludes(f"{root}/x/clients", is_directory=True)
    assert exclusion.excludes(f"{root}/x/a.secret.jsonl")
    assert exclusion.drops(f"{root}/x/a.secret.jsonl")
    assert not exclusion.excludes(f"{root}/x/b.secret.jsonl")
    assert not exclusion.excludes(f"{root}/X/A.SECRET.JSONL")
    assert not exclusion.excludes(f"{root}2/a.secret.jsonl")
    assert refreshed(root, folds=True).excludes(f"{root}/X/A.SECRET.JSONL")


def test_a_file_that_changes_or_goes(root: Path) -> None:
    """Only a change of what it says makes another revision."""
    exclusion, place = refreshed(root), Place(str(root), str(root))
    revisions = [exclusion.revision]
    for text in ("*", "*", "", None):
        (root / IGNORE_FILE).unlink() if text is None else (root / IGNORE_FILE).write_text(text)
        exclusion.refresh([place])
        revisions.append(exclusion.revision)
        assert exclusion.excludes(f"{root}/a") == (text == "*")
    assert revisions == [1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [("fifo", "no regular file"), ("directory", "no regular file"), ("large", "larger than"), ("link", "No such file")],
)
def test_a_file_that_cannot_be_read(root: Path, kind: str, trouble: str) -> None:
    """What it said before counts. If nobody knows that, nothing is opened; and nothing that is indexed is lost."""
    file, known, place = root / IGNORE_FILE, refreshed(root), Place(str(root), str(root))
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "large":
        file.write_bytes(bytes(MOST_BYTES + 1))
    else:
        file.symlink_to("nowhere")
    known.refresh([place])
    assert known.excludes(f"{root}/clients/a")
    assert not known.excludes(f"{root}/a")
    unknown = refreshed(root)
    assert unknown.excludes(f"{root}/a")
    assert not unknown.drops(f"{root}/a")
    for exclusion in (known, unknown):
        assert trouble in (exclusion.ignore_files[str(root)].trouble or "")


def fail(monkeypatch: pytest.MonkeyPatch, names: str, path: Path, number: int) -> None:
    """These functions of `os` fail for exactly this path from now on."""

    def make(call: Any) -> Any:
        def failing(asked: Any, *more: Any, **named: Any) -> Any:
            if asked == str(path):
                raise OSError(number, os.strerror(number), asked)
            return call(asked, *more, **named)

        return failing

    for name in names.split():
        monkeypatch.setattr(os, name, make(getattr(os, name)))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOMEM])
def test_a_file_that_cannot_be_looked_for(root: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """It is there if it was, and says what it said; it is not if it was not. If nobody knows, nothing is opened, and nothing lost."""
    other = root / "other"
    other.mkdir()
    places = [Place(str(root), str(root)), Place(str(other), str(other))]
    known = Exclusion()
    known.refresh(places)
    for place in (root, other):
        fail(monkeypatch, "open lstat", place / IGNORE_FILE, number)
    known.refresh(places)
    assert known.excludes(f"{root}/clients/a")
    assert known.drops(f"{root}/clients/a")
    assert not known.excludes(f"{root}/a")
    assert known.ignore_files[str(root)].trouble == os.strerror(number)
    assert str(other) not in known.ignore_files
    unknown = refreshed(other)
    assert unknown.excludes(f"{other}/a")
    assert not unknown.drops(f"{other}/a")
    monkeypatch.undo()
    (root / IGNORE_FILE).unlink()
    for exclusion in (known, unknown):
        exclusion.refresh(places)
        assert not exclusion.excludes(f"{root}/clients/a")
        assert not exclusion.excludes(f"{other}/a")


def test_a_file_on_a_disk_that_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be opened, and not read: the rules of the other roots count all the same."""
    known, place = refreshed(root), Place(str(root), str(root))

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(module, "_read_regular", broken)
    known.refresh([place])
    assert known.excludes(f"{root}/clients/a")
    assert known.ignore_files[str(root)].trouble == "Input/output error"
    assert refreshed(root).excludes(f"{root}/a")


def test_a_link_that_cannot_be_seen_leads_where_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise what is behind it would be excluded no more. One that could never be seen leads nowhere."""
    link = tmp_path / "link"
    link.symlink_to("real")
    exclusion = Exclusion([f"{link}/**"])
    revision = exclusion.revision
    fail(monkeypatch, "lstat readlink", link, errno.EACCES)
    exclusion.refresh()
    assert exclusion.excludes(f"{tmp_path}/real/x.jsonl")
    assert exclusion.revision == revision
    unknown = Exclusion([f"{link}/**"])
    assert unknown.excludes(f"{link}/x.jsonl")
    assert not unknown.excludes(f"{tmp_path}/real/x.jsonl")
    monkeypatch.undo()
    link.unlink()
    link.symlink_to("after")
    exclusion.refresh()
    assert not exclusion.excludes(f"{tmp_path}/real/x.jsonl")
    assert exclusion.excludes(f"{tmp_path}/after/x.jsonl")


def test_a_file_in_any_encoding(root: Path) -> None:
    """A mark at its beginning is none of the first pattern; names need not be UTF-8."""
    (root / IGNORE_FILE).write_bytes(b"\xef\xbb\xbf*.a\r\n*.\xff\r\n")
    exclusion = refreshed(root)
    assert exclusion.excludes(f"{root}/x.a")
    assert exclusion.excludes(os.fsdecode(b"%s/x.\xff" % os.fsencode(root)))


@pytest.mark.timeout(60)  # of which a few hundredths are needed
@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("*a" * 20 + "b", "a" * 255),
        ("?*" * 20 + "b", "a" * 255),
        ("[a]*" * 20 + "b", "a" * 255),
        ("**/a/" * 20 + "b", "a/" * 1000 + "a"),
        ("**/*a*b" + "/**/*a*c" * 5, "ab/" * 1000 + "a"),
        ("**\\/a/" * 20 + "b", "a/" * 1000 + "a"),
    ],
)
def test_rules_of_others_are_matched_in_no_time(rule: str, path: str) -> None:
    """A cloned repository may have any."""
    assert not Ignored(rule).holds(path, is_directory=False)
