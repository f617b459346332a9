"""What must never be opened."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.exclusion import Exclusion

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
