"""What stands in several places agrees: tables of methods, filters, codes and paths; documents; versions."""

import ast
import contextlib
import importlib.metadata
import inspect
import os
import pwd
import re
import shlex
from pathlib import Path

import pytest

import sesamectl
import sesamed
from sesamectl import errors as client_errors
from sesamectl import flags, locations, man, upgrade, zone
from sesamectl.client import PROTOCOL, Client
from sesamectl.commands import logs
from sesamectl.connection import connect
from sesamectl.errors import NotRunningError, UnsafeError
from sesamectl.help import text as help_text
from sesamectl.parse import parse
from sesamed import errors, paths
from sesamed.methods import method as methods
from sesamed.methods.filters import TIMES, Filters
from sesamed.methods.time_words import find_ending
from sesamed.model import PROMPT_MARKER
from sesamed.sources import SOURCES, TOOL_FAMILIES
from sesamed.store import beside, foreign, schema
from sesamed.store.search import filters, terms
from tests.support import faults, login, page, typescript_sesame

ROOT = Path(__file__).parents[2]
OUR_HEADER = typescript_sesame.HEADER[:68] + schema.APPLICATION_ID.to_bytes(4, "big") + bytes(28)


def test_filters_are_the_same_everywhere() -> None:
    """The filters of the wire, of the store and of the command line are the same; families act with `tool`, a time zone with times."""
    wire = set(Filters.__struct_encode_fields__)
    times = {"after", "before", "until", "on"}  # all of them are bounds, after which and before which
    assert wire - {"toolFamily", "timeZone"} - times == set(filters.FILTERS) - {"after", "before"}
    assert wire - {"toolFamily", "timeZone"} == {flag.name for flag in flags.FILTERS}
    assert set(TIMES) == times == set(zone.TIMES)


def test_what_help_says_of_words_is_so() -> None:
    """Each way to write one means to the daemon what help and the manual page say."""
    ways = dict(flags.OPERANDS["WORD..."][1])
    read = {way: terms.parse(way) for written in ways for way in written.split(", ")}
    assert set(read) == {"word", '"two words"', "word*", "-word", '-"two words"', "word last week", "-- --word"}
    assert [find_ending(way) is not None for way in read] == [way == "word last week" for way in read]
    assert all(find_ending(f"word {time}") for time in re.findall("`(.*?)`", ways["word last week"]))
    assert [(word.is_phrase, word.is_prefix) for word in read['"two words"'].words] == [(True, False)]
    assert [(word.is_phrase, word.is_prefix) for word in read["word*"].words] == [(False, True)]
    for way, text, is_phrase in (("-word", "word", False), ('-"two words"', "two words", True)):
        (word,) = terms.parse(f"other {way}").excluded
        assert (word.text, word.is_phrase) == (text, is_phrase)
    assert parse(["search", "--", "--word"])[1].words == ["--word"]
    shown, page = help_text("search", 80), man.page()
    for written, explained in ways.items():
        assert written in shown
        assert man.escape(explained) in page


def test_documents_name_the_marker() -> None:
    """Other programs begin their prompts with it, too."""
    for name in ("protocol", "sources"):
        assert f"`{PROMPT_MARKER}`" in (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert f'PROMPT_MARKER = "{PROMPT_MARKER}";' in (ROOT / "pi/sesame/model.ts").read_text(encoding="utf-8")


def test_families_of_tools_are_the_same_everywhere() -> None:
    """The families of the sources, of the command line and of the documents are the same; each has tools."""
    assert tuple(TOOL_FAMILIES) == flags.TOOL_FAMILIES
    assert all(TOOL_FAMILIES.values())
    meaning = page.filters().rows["toolFamily"].meaning.partition("`hello`")[0]
    assert tuple(re.findall(r"`(\w+)`", meaning)) == flags.TOOL_FAMILIES
    shown = page.exchange("hello")[1][-1]["result"]["toolFamilies"]
    assert shown == {family: list(names) for family, names in TOOL_FAMILIES.items()}


def test_error_codes_are_documented_and_unique() -> None:
    """Every error that goes over the wire has a code of its own, and it stands in the table."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SesameError)]
    codes = {kind.__name__: kind.code for kind in kinds if "code" in vars(kind) and kind is not errors.SesameError}
    assert len(set(codes.values())) == len(codes)
    table = page.PAGE.partition("## Errors")[2].partition("## Filters")[0]
    assert set(map(int, re.findall(r"^\| (-?\d+) \|", table, re.MULTILINE))) == set(codes.values())


def test_the_version_is_one() -> None:
    """The package's version is the one of its metadata, and of the client, which imports nothing of the daemon."""
    assert importlib.metadata.version("sesame-index") == sesamed.__version__ == sesamectl.__version__


def test_every_older_schema_can_be_carried_over() -> None:
    """From 4 on: older ones were never released. Today's is set aside when what becomes of secrets has changed."""
    assert set(schema.OLDER) == set(range(4, schema.VERSION + 1))


@pytest.mark.fault(77)
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"SESAME_RUNTIME_DIR": "/tmp/r"},
        {"SESAME_SOCKET": "/tmp/s.sock"},
        {"SESAME_SOCKET": "/tmp/s", "SESAME_RUNTIME_DIR": "/tmp/r"},
    ],
)
def test_client_and_daemon_agree_on_the_socket(environ: dict[str, str]) -> None:
    """The client's short copy of the socket's place gives what the daemon's gives."""
    assert locations.socket_path(environ) == paths.find(environ).socket


@pytest.mark.parametrize(("environ", "socket"), login.NAMED)
def test_variables_name_one_socket(environ: dict[str, str], socket: str) -> None:
    """However they are written: the daemon's way through a directory that is a link is the clients'."""
    assert locations.socket_path(environ) == paths.find(environ).socket == socket


@pytest.mark.parametrize("case", login.CASES)
def test_client_and_daemon_agree_on_a_login_directory(tmp_path: Path, case: str) -> None:
    """Both use the login directory when it is private, and the home otherwise; a link is not private, wherever it leads."""
    run_user = tmp_path / "user"
    run_user.mkdir()
    directory, uid = login.make_login_directory(run_user, case), os.geteuid()
    home = os.path.join(os.path.normpath(pwd.getpwuid(uid).pw_dir), ".local/state/sesame/run")
    expected = f"{directory}/sesame" if case in login.PRIVATE else home
    assert locations.default_directory(uid, str(run_user)) == expected
    assert paths.default_runtime_dir(uid, str(run_user)) == expected


@pytest.mark.fault(78)
@pytest.mark.parametrize(("path", "refused"), login.TOO_LONG)
def test_everybody_refuses_the_same_long_sockets(path: str, refused: bool) -> None:
    """Who looks for a socket, who binds it and who connects to it have one limit."""
    with pytest.raises(UnsafeError, match="too long") if refused else pytest.raises(NotRunningError):
        connect(path, 1.0)
    with pytest.raises(errors.ConfigError) if refused else contextlib.nullcontext():
        assert paths.find({"SESAME_SOCKET": path}).socket == path


@pytest.mark.parametrize("is_chosen", [False, True])
@pytest.mark.parametrize("has_been_here", [False, True])
@pytest.mark.parametrize("header", [None, b"", b"SQLite format 3\0", bytes(100), typescript_sesame.HEADER, OUR_HEADER])
def test_client_and_daemon_keep_their_data_in_one_place(
    tmp_path: Path, header: bytes | None, has_been_here: bool, is_chosen: bool
) -> None:
    """Beside the TypeScript sesame's index, unless we were there before; and where they once were."""
    own = tmp_path / "sesamed"
    if header is not None:
        (tmp_path / "index.sqlite").write_bytes(header)
    if has_been_here:
        (tmp_path / paths.SESSIONS).mkdir()
    if is_chosen:
        (own / paths.SESSIONS).mkdir(parents=True)
    is_beside = is_chosen or (header == typescript_sesame.HEADER and not has_been_here)
    expected = str(own if is_beside else tmp_path)
    environ = {"SESAME_DATA_DIR": str(tmp_path), "SESAME_RUNTIME_DIR": "/r"}
    assert paths.find(environ).data_dir == locations.data_directory(environ) == expected


@pytest.mark.parametrize(
    "environ", [{}, {"SESAME_CONFIG_DIR": "/c/"}, {"XDG_CONFIG_HOME": "/x"}, {"XDG_CONFIG_HOME": "relative"}]
)
def test_client_and_daemon_agree_on_the_configuration(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The client only looks whether there is anything in it."""
    for name in ("SESAME_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
        if name in environ:
            monkeypatch.setenv(name, environ[name])
    given = {"SESAME_RUNTIME_DIR": "/r", **environ}
    assert locations.config_file(given) == paths.find(given).config_file


def test_the_names_of_our_files_have_one_home() -> None:
    """Whatever daemon and client keep in the data directory is known to be ours, and either can be made again or lasts."""
    ours = paths.find({"SESAME_RUNTIME_DIR": "/r"})
    made_again = {
        upgrade.STAMP,
        *logs.FILES,
        "start.lock",
        "sesamed.lock",
        foreign.COPY,
        beside.SET_ASIDE,
        os.path.basename(ours.database),
    }
    lasting = {paths.SESSIONS, *beside.NAMES}
    assert all(ours.owns(name) for name in made_again | lasting)
    assert {name for name in made_again | lasting if re.fullmatch(paths.MADE_AGAIN, name)} == made_again


def test_sources_carry_their_names() -> None:
    """The registry's names are the sources' own."""
    assert all(source.name == name for name, source in SOURCES.items())


def test_only_its_package_knows_an_agent() -> None:
    """Nothing else names one (pi is also where our tools live, and a word of the configuration; a cursor is also something else)."""
    agents = {file.parent.name for file in (ROOT / "sesamed/sources").glob("*/__init__.py")} - {"pi", "cursor"}
    assert {"claude", "codex"} <= agents
    places = ("sesamed", "sesamectl", "pi/sesame")
    files = [file for place in places for name in ("*.py", "*.ts") for file in (ROOT / place).rglob(name)]
    words = (
        name if len(name) > 3 else rf"\b{name}\b(?!;)" for name in agents
    )  # short ones are in other words, in `&amp;`
    named = re.compile("|".join([*words, r"\.cursor\b(?=[/\"])", "cursor-agent"]), re.IGNORECASE)
    found = {
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        if "sources" not in file.relative_to(ROOT).parts
        for line in file.read_text(encoding="utf-8").splitlines()
        if named.search(line) and not line.lstrip().startswith(("--", "#"))
    }
    assert not found


def test_sources_are_documented() -> None:
    """Each source has its table of what is kept and skipped."""
    page = (ROOT / "docs/sources.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(SOURCES)


def test_readme_has_its_two_commands() -> None:
    """The README's first command installs and searches, the second runs the tests; each is one line."""
    commands = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) == 2
    assert "sesamectl search" in commands[0]
    assert commands[1].endswith("python -m pytest")


@pytest.mark.parametrize("page", ["README.md", "docs/client.md"])
def test_commands_in_documents_are_understood(page: str) -> None:
    """Every command line that a document shows is one that the client takes, and its Python is Python."""
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.findall(r"^(?:\$ )?sesamectl (.+?)(?:\s{2,}#.*)?$", text, re.MULTILINE)
    assert shown or page != "README.md"
    for line in shown:
        parse(shlex.split(line))
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        compile(example, page, "exec")


def test_the_library_is_documented_as_it_is() -> None:
    """The signature and every error of the client stand in docs/client.md."""
    page = (ROOT / "docs/client.md").read_text(encoding="utf-8")
    parameters = [str(p).partition(":")[0] + f"={p.default}" for p in inspect.signature(Client).parameters.values()]
    assert f"`Client({', '.join(parameters[:3])}, *, {parameters[3]})`" in page
    for name, kind in vars(client_errors).items():
        if isinstance(kind, type) and issubclass(kind, client_errors.ClientError | client_errors.RpcError):
            assert f"| `{name}` |" in page


def test_the_client_speaks_the_daemons_protocol() -> None:
    """The number that the client compares is the daemon's."""
    assert methods.MIN_PROTOCOL <= PROTOCOL <= methods.PROTOCOL


SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+(OR\s+\w+\s+)?INTO|REPLACE\s+INTO|DELETE\s+FROM|UPDATE\s+\w+\s+SET|PRAGMA)\s",
    re.DOTALL,
)
VERB = re.compile(r"SELECT|INSERT|REPLACE|DELETE|UPDATE|PRAGMA")  # a file without one has no statement


@pytest.mark.parametrize("package", ["sesamed", "sesamectl"])
def test_statements_stand_in_the_store(package: str) -> None:
    """Or, in PostgreSQL's language, in the hub; and in sources that read somebody's database, as text: the store runs those, too."""
    allowed = ("sesamed/store/", "sesamed/sources/", "sesamed/hub/")
    for file in sorted((ROOT / package).rglob("*.py")):
        name = str(file.relative_to(ROOT))
        text = file.read_text(encoding="utf-8")
        if not name.startswith(allowed) and VERB.search(text):
            strings = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
            assert [
                node.value for node in strings if isinstance(node.value, str) and SQL.search(node.value + " ")
            ] == [], name


def test_statements_are_recognised() -> None:
    """The test above can fail."""
    assert SQL.search("SELECT a FROM b ")
    assert SQL.search("REPLACE INTO b VALUES(1)")
    assert SQL.search("UPDATE b SET a = 1")


# Functions that may name a type to decode: before there are threads, or of one that its module has prepared.
PREPARED = {
    "sesamed/config.py:load",
    "sesamed/server/dispatch.py:__init__",
    "sesamed/sources/lines.py:__init__",
    "sesamed/sources/lines.py:_convert",
}


def find_decoding(tree: ast.AST) -> set[str]:
    """The functions in which something is decoded, or will be, as a type that is named there."""
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    )
    return {
        getattr(function, "name", "lambda")
        for function in functions
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and NAMES_TYPE.search(ast.unparse(call).replace("\n", " "))
    }


NAMES_TYPE = re.compile(r"^(?:(?:msgspec\.)?(?:json|msgpack)\.(?:Decoder\(|decode\(.*\btype=)|msgspec\.convert\()")


def test_types_are_prepared_with_their_modules() -> None:
    """msgspec (0.22) crashes when two threads are the first to decode a type: a third of the runs of eight threads that all did."""
    found = set[str]()
    for package in ("sesamed", "sesamectl"):
        for file in sorted((ROOT / package).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "msgspec" in text:
                found |= {f"{file.relative_to(ROOT)}:{name}" for name in find_decoding(ast.parse(text))}
    assert found == PREPARED


def test_faults_are_documented() -> None:
    """Each fault has a test that holds what is promised, or a reason why there is none; docs/faults.md says so, and nothing else."""
    table = [fault for area in faults.AREAS.values() for fault in area]
    assert [fault.number for fault in table] == list(range(1, len(table) + 1))
    assert {fault.number for fault in table if not fault.untested} == set(faults.tests_by_fault())
    assert (ROOT / "docs/faults.md").read_text(encoding="utf-8") == faults.document()


def test_exit_codes_are_the_same_everywhere() -> None:
    """README, manual page and `--help` list the same ones."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("Exit codes: ")[2].partition("\n\n")[0]
    overview = help_text("", 10_000).partition("exit codes: ")[2].partition("\n\n")[0]
    documented = [set(re.findall(r"(?:^|,\s)(\d+) ", text)) for text in (readme, overview)]
    assert documented == [{code for code, _ in man.EXITS}] * 2


def test_who_starts_the_daemon_is_documented() -> None:
    """All that can be told not to, and those whose purpose it is."""
    page = (ROOT / "docs/client.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^(.*) start it; ", page, re.MULTILINE)
    starting = {name for name, command in flags.COMMANDS.items() if flags.NO_START in command.flags}
    assert set(re.findall(r"`(\w+)`", sentence)) == starting | {"start", "restart"}


def test_parts_of_the_long_run_are_documented() -> None:
    """Each part of .ci/long, and what says how much of it."""
    script = (ROOT / ".ci/long").read_text(encoding="utf-8")
    page = (ROOT / "docs/development.md").read_text(encoding="utf-8").partition("| part |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(
        re.findall(r"^(\w+)\(\)", script, re.MULTILINE)
    )
    assert set(re.findall(r"`(SESAME_\w+)`, (\d+)", page)) == set(re.findall(r"\$\{(SESAME_\w+):=(\d+)\}", script))


def test_replaced_decisions_say_so() -> None:
    """Both of them: the one that replaces another, and the one that is replaced."""
    page = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
    numbered = re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in numbered] == list(range(1, len(numbered) + 1))
    sections = dict(numbered)
    notes = {number: text.partition("\n")[0].rpartition("(")[2] for number, text in sections.items()}
    replacing = re.compile(r"\breplace(?:s|d)\b.*?\b(\d{1,3})\b")
    pairs = {(number, other) for number, note in notes.items() for other in replacing.findall(note)}
    assert pairs
    assert {(one, other) for one, other in pairs if not re.search(rf"\b{one}\b", sections[other])} == set()


def test_variables_are_documented() -> None:
    """Each one that means something to us stands in docs/configuration.md, and no other one of that kind."""
    named = re.compile(r"\b(SESAME_[A-Z_]+|SESAMECTL|WORKSTATION_ID|NO_COLOR|CLICOLOR[A-Z_]*|FORCE_COLOR)\b")
    files = [
        file
        for place in ("sesamed", "sesamectl", "pi/sesame")
        for kind in ("*.py", "*.ts")
        for file in (ROOT / place).rglob(kind)
    ]
    used = {name for file in files for name in named.findall(file.read_text(encoding="utf-8"))}
    assert set(named.findall((ROOT / "docs/configuration.md").read_text(encoding="utf-8"))) == used
