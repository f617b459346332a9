"""The command line's grammar."""

import os
import shlex
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl import flags, help  # noqa: A004  # what it is
from sesamectl.errors import UsageError
from sesamectl.parse import parse
from sesamectl.render.terminal import columns
from sesamed.methods.filters import Filters
from sesamed.methods.index import IndexParams
from sesamed.methods.lists import ListSessionsParams
from sesamed.methods.search import SearchParams
from sesamed.methods.sessions import ListMessagesParams


def search(*words: str) -> dict[str, object]:
    name, arguments = parse(["search", *words])
    assert name == "search"
    return {"words": arguments.words, **arguments.collect(flags.SEARCH)}


def names(of: typing.Iterable[flags.Flag]) -> set[str]:
    return {flag.dest for flag in of}


def test_every_filter_is_a_flag() -> None:
    """Every filter of the protocol is a flag, and every flag a parameter. `--tool` is both of the filters for tools, and `--hub` is a
    scope; what needs memory is for programs. The time zone is that of the process.
    """
    assert names(flags.FILTERS) == set(Filters.__struct_encode_fields__) - {"toolFamily", "timeZone"}
    assert names(flags.SEARCH) < set(SearchParams.__struct_encode_fields__)
    assert names(flags.INDEX) < set(IndexParams.__struct_encode_fields__)
    assert names(flags.SHOW) < set(ListMessagesParams.__struct_encode_fields__)
    listed = names((*flags.PAGE, flags.SIMILAR, *flags.FILTERS, flags.PERSON, *flags.CHANGES))
    assert listed == set(ListSessionsParams.__struct_encode_fields__) - {
        "toolFamily",
        "needsMemory",
        "scope",
        "timeZone",
    }


def test_only_what_is_given_is_sent() -> None:
    """What was not given is left to the daemon."""
    assert search("nix", "flake") == {"words": ["nix", "flake"]}
    assert search() == {"words": []}


def test_words_and_flags_mix() -> None:
    """Flags may stand before, between and behind the words; their values behind a blank or an equals sign."""
    assert search("--limit", "0", "a", "--sort=recent", "b", "--fresh") == {
        "words": ["a", "b"],
        "limit": 0,
        "sort": "recent",
        "fresh": True,
    }
    assert search("--path=--x=y")["path"] == "--x=y"


def test_words_that_begin_with_a_dash() -> None:
    """One dash makes no flag; behind `--` everything is a word."""
    assert search("-x", "nix", "-flake") == {"words": ["-x", "nix", "-flake"]}
    assert search("--limit", "3", "--", "-x", "--json", "--") == {"words": ["-x", "--json", "--"], "limit": 3}


def test_help_is_found_wherever_it_is_looked_for() -> None:
    """Nothing at all, `help`, a flag; of a command, before and behind it."""
    for words in ([], ["help"], ["--help"], ["-h"]):
        name, arguments = parse(words)
        assert (name, arguments.values) == ("", {"help": True})
    for words in (
        ["help", "show"],
        ["show", "--help"],
        ["show", "-h", "x"],
        ["--json", "-h", "show"],
        ["help", "--json", "show"],
    ):
        name, arguments = parse(words)
        assert (name, arguments.values) == ("show", {"help": True})
    for word in ("version", "--version", "-V"):
        assert parse([word])[1].values == {"version": True}


def test_flags_may_stand_before_the_command() -> None:
    """With their values; `--` is behind it only."""
    for limit in ("--limit", "-n"):
        name, arguments = parse(["--json", limit, "3", "--cwd=/x", "search", "a", "--", "--b"])
        assert (name, arguments.words) == ("search", ["a", "--b"])
        assert arguments.values == {"json": True, "limit": 3, "cwd": "/x"}
    kinds: dict[str, set[bool]] = {}
    for command in flags.COMMANDS.values():
        for flag in command.flags:
            for spelled in flag.names:
                kinds.setdefault(spelled, set()).add(bool(flag.metavar))
    assert all(len(kind) == 1 for kind in kinds.values()), "before the command nobody knows whose flag it is"


def test_short_flags() -> None:
    """Exactly one listed letter; whatever else begins with one dash is a word that is excluded, and the answer names it."""
    assert search("nix", "-n", "3") == {"words": ["nix"], "limit": 3}
    assert search("-1", "nix") == {"words": ["nix"], "limit": 1}
    assert parse(["search", "x", "-C", "2"])[1].values == {"context": 2}
    assert parse(["show", "x", "-C", "2", "-n", "5"])[1].values == {"context": 2, "limit": 5}
    assert parse(["logs", "-n", "5", "-f"])[1].values == {"lines": 5, "follow": True}
    for word in ("-n3", "-N", "-c", "-2", "-11", "-limit", "-json", "-"):
        assert search("nix", word, "3") == {"words": ["nix", word, "3"]}
    assert search("--", "-1", "-n") == {"words": ["-1", "-n"]}
    assert parse(["-n", "3", "-C", "1", "search", "x"])[1].values == {"limit": 3, "context": 1}
    assert parse(["-1", "list"])[1].values == {"limit": 1}


def test_lists() -> None:
    """What the protocol takes as a list can be repeated; of the others the last one counts."""
    given = search("--exclude", "a", "--exclude", "b", "--tool", "bash", "--source", "pi", "--role", "user")
    assert given == {"words": [], "exclude": ["a", "b"], "tool": ["bash"], "source": ["pi"], "role": ["user"]}
    assert search("--limit", "1", "--limit", "2")["limit"] == 2


def test_a_directory_is_made_absolute() -> None:
    """`--cwd .` is the directory that the person is in; other paths are of the index."""
    assert search("--cwd", ".")["cwd"] == os.getcwd()
    here, above = os.getcwd(), os.path.dirname(os.getcwd())
    for typed, meant in (
        (".", here), ("./", f"{here}/"), ("./src/", f"{here}/src/"), ("../a.ts", f"{above}/a.ts"), ("..", above),
        ("src", "src"), ("src/", "src/"), (".env", ".env"), ("~/x", "~/x"), ("/x/./y", "/x/./y"),
    ):  # fmt: skip
        assert search("--path", typed)["path"] == meant


def test_times_are_sent_as_they_are() -> None:
    """What they mean, the daemon knows."""
    given = search("--after", "last week", "--before", "7d", "--until=2025-12", "--on", "3 days ago")
    assert given == {"words": [], "after": "last week", "before": "7d", "until": "2025-12", "on": "3 days ago"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "missing command; commands are search, "),
        (["--limit", "3"], "missing command; commands are search, "),
        (["xyzzy"], "unknown command 'xyzzy'; commands are search, "),
        (["serach", "x"], "unknown command 'serach'; did you mean search?"),
        (["help", "Staus"], "unknown command 'Staus'; did you mean status?"),
        (["hepl"], "unknown command 'hepl'; did you mean help?"),
        (["--jsn", "search", "x"], "unknown flag --jsn; did you mean --json?"),
        (["-x", "search"], "unknown flag -x"),
        (["search", "--nonsense"], "unknown flag --nonsense; put `--` before words"),
        (["list", "--since", "3d"], "unknown flag --since; did you mean --after?"),
        (["search", "--agent", "pi"], "unknown flag --agent; did you mean --source?"),
        (["search", "--limt", "3"], "unknown flag --limt; did you mean --limit?"),
        (["status", "--xyzzy"], "unknown flag --xyzzy"),
        (["service", "uninstal"], "'uninstal': expected uninstall or install or "),
        (["service", "uninstal"], "; did you mean uninstall?"),
        (["search", "--limit", "-1"], "--limit: '-1' is not a number"),
        (["search", "--limit", "²"], "--limit: '²' is not a number"),
        (["search", "--limit", "9" * 5000], "is not a number"),
        (["search", "--limit"], "--limit needs a value: --limit N"),
        (["search", "-n"], "--limit needs a value: --limit N"),
        (["search", "-n", "-C", "2"], "--limit: '-C' is not a number"),
        (["search", "--color", "yes"], "--color yes: expected "),
        (["stop", "-1"], "unexpected argument: -1"),
        (["search", "--cwd", "--json"], "--cwd needs a value: --cwd DIR"),
        (["search", "--json=1"], "--json takes no value"),
        (["search", "--sort", "up"], "--sort up: expected relevance or recent"),
        (["search", "--role", "asistant"], "--role asistant: expected assistant or "),
        (["search", "--role", "usr"], "or summary or assistant; did you mean user?"),
        (["list", "--color", "Alway"], "; did you mean always?"),
        (["list", "--status", "ok"], "--status ok: expected error or success"),
        (["status", "x", "y"], "unexpected argument: x y"),
        (["stop", "--", "now"], "unexpected argument: now"),
        (["show"], "missing SESSION"),
        (["show", "a", "b"], "unexpected argument: b"),
    ],
)
def test_usage(words: list[str], message: str) -> None:
    """Wrong usage says what is wrong, and of which command."""
    with pytest.raises(UsageError) as wrong:
        parse(words)
    assert message in str(wrong.value)
    assert wrong.value.command == (words[0] if words and words[0] in flags.COMMANDS else "")


WORDS = st.sampled_from(
    [*flags.COMMANDS, "--", "--json", "--limit", "--limit=3", "-h", "--cwd", "--sort", "--sort=recent", "--all"]
)


@given(st.lists(WORDS | st.text(max_size=5), max_size=6))
def test_any_line_is_understood_or_refused(words: list[str]) -> None:
    """Whatever is typed gives a command and its arguments, or a UsageError; words are never lost."""
    try:
        name, arguments = parse(words)
    except UsageError:
        return
    assert name in {"", *flags.COMMANDS}
    if "--" in words[1:] and not arguments.has("help"):
        behind = words[words.index("--", 1) + 1 :]
        assert arguments.words[len(arguments.words) - len(behind) :] == behind


def test_help_asked_for() -> None:
    """`--help` anywhere in front of `--` is no search for it."""
    assert parse(["search", "--limit", "x", "-h"])[1].has("help")
    assert not parse(["search", "--", "-h"])[1].has("help")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("command", ["", *flags.COMMANDS])
def test_help(command: str, width: int) -> None:
    """Every help text names all flags or commands, has examples that are understood, and keeps to the width that there is."""
    text = help.text(command, width)
    names = [f"--{flag.name}" for flag in flags.COMMANDS[command].flags] if command else list(flags.COMMANDS)
    assert all(f"\n  {name}" in text for name in names)
    examples = text.partition("\nexamples:\n")[2].split("\n")
    assert examples
    for example in examples:
        parse(shlex.split(example)[1:])
    lines = text.partition("\nexamples")[0].split("\n")[2:]
    assert all(columns(line) <= max(width, 44) for line in lines)


def test_help_keeps_its_columns_apart() -> None:
    """A flag that fills its column has its explanation below it."""
    assert "--status success|error\n                        tool calls" in help.text("search", 100)
