"""The command line's grammar."""

import os
import typing

import pytest

from sesamectl import flags
from sesamed.protocol import Filters, IndexParams, SearchParams


def search(*words: str) -> dict[str, object]:
    name, arguments = flags.parse(["search", *words])
    assert name == "search"
    return {"words": arguments.words, **flags.given(arguments, flags.SEARCH)}


def names(of: typing.Iterable[flags.Flag]) -> set[str]:
    return {options.get("dest", flag.removeprefix("--")) for flag, options in of}


def test_every_filter_is_a_flag() -> None:
    """Every filter of the protocol is a flag, and every flag a parameter."""
    assert names(flags.FILTERS) == set(Filters.__struct_encode_fields__)
    assert names(flags.SEARCH) < set(SearchParams.__struct_encode_fields__)
    assert names(flags.INDEX) < set(IndexParams.__struct_encode_fields__)


def test_only_what_is_given_is_sent() -> None:
    """What was not given is left to the daemon."""
    assert search("nix", "flake") == {"words": ["nix", "flake"]}
    assert search() == {"words": []}


def test_words_and_flags_mix() -> None:
    """Flags may stand before, between and behind the words."""
    assert search("--limit", "0", "a", "--sort", "recent", "b", "--fresh") == {
        "words": ["a", "b"],
        "limit": 0,
        "sort": "recent",
        "fresh": True,
    }


def test_words_that_begin_with_a_dash() -> None:
    """Behind `--` everything is a word."""
    assert search("--limit", "3", "--", "-x", "--json") == {"words": ["-x", "--json"], "limit": 3}


def test_lists() -> None:
    """What the protocol takes as a list can be repeated."""
    given = search("--exclude", "a", "--exclude", "b", "--tool", "bash", "--source", "pi", "--role", "user")
    assert given == {"words": [], "exclude": ["a", "b"], "tool": ["bash"], "source": ["pi"], "role": ["user"]}


def test_a_directory_is_made_absolute() -> None:
    """`--cwd .` is the directory that the person is in."""
    assert search("--cwd", ".")["cwd"] == os.getcwd()


def test_dates_are_made_utc() -> None:
    """`--after` and `--before` go through the person's time zone."""
    given = search("--after", "2025-12-15T10:00:00Z", "--before", "7d")
    assert given == {"words": [], "after": "2025-12-15T10:00:00.000Z", "before": "7d"}


@pytest.mark.parametrize(
    "words",
    [
        [], ["nonsense"], ["--json", "status"], ["search", "--nonsense"], ["search", "--limit", "-1"], ["search", "--limit", "x"],
        ["search", "--after", "yesterday\x1b[0m"], ["search", "--sort", "up"], ["search", "--lim", "3"], ["status", "x"], ["--", "stop"],
        ["stop", "--", "now"],
    ],
)  # fmt: skip
def test_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is one clean line on stderr, and exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        flags.parse(words)
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("sesamectl")
    assert err.endswith("--help`\n")
    assert "\x1b" not in err


@pytest.mark.parametrize("command", [*flags.COMMANDS, None])
def test_help_has_an_example(command: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Every help text ends with an example."""
    with pytest.raises(SystemExit) as stopped:
        flags.parse([command, "--help"] if command else ["--help"])
    assert stopped.value.code == 0
    assert "example:\n  sesamectl " in capsys.readouterr().out
