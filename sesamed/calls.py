"""What the arguments of a tool call say: as text, which files they name, and whether it is a search of our own. Pure."""

import ntpath
import os.path
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

PATH_ARGUMENTS = frozenset(
    "path paths file files file_path filePath absolute_path filename target_file notebook_path old_path new_path"
    " source_path destination_path".split()
)
PATCH_ARGUMENTS = frozenset("patch input diff patchText".split())
COMMAND_ARGUMENTS = frozenset("command cmd argv args".split())
COMMANDS_ARGUMENT = "commands"  # several, each of its own
PATCH_COMMANDS = ("apply_patch", "applypatch")
PATCH_HEADER = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (\S[^\t\r\n]*)", re.MULTILINE)
# Both names of a file, one below the other: a comment of Lua or SQL that is taken out looks like one of them.
DIFF_HEADER = re.compile(r"^--- (?:a/)?(\S[^\t\r\n]*+)[^\n]*\n\+\+\+ (?:b/)?(\S[^\t\r\n]*)", re.MULTILINE)
SHELL_PATCH = re.compile(
    r"""(?:^|(?<=["']))\*\*\* Begin Patch[ \t]*\r?\n(.*?)(?:^\*\*\* End Patch|\Z)""", re.MULTILINE | re.DOTALL
)
WINDOWS = re.compile(r"[A-Za-z]:(?:[\\/]|$)|\\\\")  # a drive, or a server: what absolute paths begin with there
MAX_TOUCHED = 64
MAX_PATH = 4096
MAX_VALUE = 1 << 20  # characters; what is indexed of a text is less
MAX_DEPTH = 16  # what is nested deeper is written as JSON

_ANYTHING = msgspec.json.Decoder()
_ENCODE = msgspec.json.Encoder().encode
_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_arguments(arguments: bytes) -> dict[str, Any]:
    """A call's arguments; what is no object stands under `arguments`."""
    try:
        value = _ANYTHING.decode(arguments)
    except _ERRORS:
        value = None
    if isinstance(value, dict):
        return value
    return {"arguments": arguments.decode("utf-8", "replace") if value is None else value}


# -- as text


def call_text(name: str, arguments: Mapping[str, Any], limit: int) -> str:
    """A call as structured text: `tool: bash`, `command: …`, `edits[0].oldText: …`. It ends behind the argument with which it has more
    characters than `limit`: names are repeated for what is nested, so that all of it may be much larger than the call."""
    return _join_lines([f"tool: {name}"], _list_lines(arguments.items(), 0), limit)


def value_text(value: Any, limit: int = MAX_VALUE) -> str:
    """A result that is a value, in the same way."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _join_lines([], _list_lines(value.items(), 0), limit)
    return _join_lines([], _list_lines([("", value)], 0), limit).removeprefix(": ").removeprefix(":\n")


def _join_lines(lines: list[str], more: Iterable[str], limit: int) -> str:
    size = 0
    for line in more:
        lines.append(line)
        size += len(line) + 1
        if size > limit:
            break
    return "\n".join(lines)


def _list_lines(items: Iterable[tuple[str, Any]], depth: int) -> Iterator[str]:
    for name, value in items:
        if isinstance(value, str):
            yield _line(name, value)
        elif not value or not isinstance(value, dict | list) or depth == MAX_DEPTH:
            yield f"{name}: {_ENCODE(value).decode()}"
        elif isinstance(value, dict):
            yield from _list_lines(((f"{name}.{key}", item) for key, item in value.items()), depth + 1)
        elif any(isinstance(item, dict | list) for item in value):
            yield from _list_lines(((f"{name}[{at}]", item) for at, item in enumerate(value)), depth + 1)
        elif any(isinstance(item, str) for item in value):
            yield _line(name, _list_text(name, value))
        else:
            yield f"{name}: {_ENCODE(value).decode()}"


def _line(name: str, text: str) -> str:
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"


def _list_text(name: str, items: list[Any]) -> str:
    """The words of a command, of which one with lines of its own begins a line; else an item a line."""
    texts = [item if isinstance(item, str) else _ENCODE(item).decode() for item in items]
    if name.rpartition(".")[2] not in COMMAND_ARGUMENTS:
        return "\n".join(texts)
    return "".join(("\n" if "\n" in text else " ") + text for text in texts)[1:]


def mend_call_text(text: str) -> tuple[str, dict[str, Any]]:
    """A call's text from when what is nested was written as JSON: as it is written today, with the arguments that are certain.

    They are up to the first one with several lines, as what comes behind it may belong to it; that one has all the rest.
    """
    first, *lines = text.split("\n")
    mended, arguments = [first], {}
    for at, line in enumerate(lines):
        name, colon, value = line.partition(": ")
        if not colon:
            mended += lines[at:]
            if line.endswith(":"):
                arguments[line[:-1]] = "\n".join(lines[at + 1 :])
            break
        arguments[name] = _read_json(value)
        today = _join_lines([], _list_lines([(name, arguments[name])], 0), MAX_VALUE)
        mended.append(today if len(today) <= MAX_VALUE else line)
    return "\n".join(mended), arguments


def _read_json(text: str) -> Any:
    """The list or object that was written so, else the text itself."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        value = _ANYTHING.decode(text)
        return value if _ENCODE(value).decode() == text else text
    except _ERRORS:
        return text


# -- touched files


def find_touched(arguments: Mapping[str, Any], cwd: str | None, home: str) -> Iterator[str]:
    """The files that a call touched: from path arguments and the headers of patches, those that a command applies among them. Nothing is
    guessed from other shell text."""
    found: dict[str, None] = {}
    for key, value in arguments.items():
        if key in PATH_ARGUMENTS:
            found.update(dict.fromkeys(_list_paths(value)))
        elif key in PATCH_ARGUMENTS and isinstance(value, str):
            found.update(dict.fromkeys(_list_changed(value)))
        elif key in COMMAND_ARGUMENTS or key == COMMANDS_ARGUMENT:
            found.update(dict.fromkeys(_list_patched(value)))
    for path in list(found)[:MAX_TOUCHED]:
        if 0 < len(path) <= MAX_PATH and "\n" not in path and path != "/dev/null":
            yield join_path(cwd or "", path, home)


def _list_changed(patch: str) -> Iterable[str]:
    """The files that a patch changes."""
    return PATCH_HEADER.findall(patch) or (path for paths in DIFF_HEADER.findall(patch) for path in paths)


def _list_patched(command: Any) -> Iterator[str]:
    """The files of patches that a command applies: an argument of its own, or a document in the shell's text."""
    texts = [text for text in (command if isinstance(command, list) else (command,)) if isinstance(text, str)]
    if not any(name in text for text in texts for name in PATCH_COMMANDS):
        return
    for text in texts:
        if "*** Begin Patch" in text:
            for patch in SHELL_PATCH.findall(text):
                yield from PATCH_HEADER.findall(patch)


def join_path(cwd: str, path: str, home: str = "~") -> str:
    """A path of a session that worked in this directory, on whichever system."""
    if path.startswith("~/"):
        path = home + path[1:]
    if WINDOWS.match(path) or (WINDOWS.match(cwd) and not path.startswith("/")):
        return ntpath.normpath(ntpath.join(cwd, path))
    return os.path.normpath(os.path.join(cwd, path))


def _list_paths(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value[:MAX_TOUCHED]:
            yield from _list_paths(item)
    elif isinstance(value, dict):
        yield from (item for key, item in value.items() if key in PATH_ARGUMENTS and isinstance(item, str))


# -- our own
#
# Which tool calls are searches of sesame, and which messages contain their results. They are kept, but not indexed: otherwise a search
# would find the searches before it. A shell command counts when it *runs* sesamectl. One that only mentions it (`grep sesamectl README.md`)
# is somebody's work, and stays findable. The shell is not parsed, only its quotes are seen: a wrong guess costs one hit.

OWN_MESSAGES = frozenset(
    {"sesame-reference"}
)  # what `@@name` in a prompt told the model, by the name that pi gives to its type
BLOCK = ("\n\n<sesame-reference ids=[", "</sesame-reference>")  # around the same, behind a prompt to a working model
OWN_TOOLS = frozenset({"search_sessions", "read_session", "list_sessions", "get_session_meta", "query_session"})
# Before the name of one there may be ours: in pi where another extension has the name, elsewhere as the name of our server, joined as the
# agent likes it: `mcp__sesame__`, `mcp__sesame.`, `mcp_sesame_`, `sesame-`.
OWN_NAME = re.compile(rf"(?:(?:mcp[-_.:/]+)?sesame[-_.:/]+)?(?:{'|'.join(sorted(OWN_TOOLS))})")
SERVER, RESOURCE = "sesame", "sesame://"  # how an agent's own tool for resources names ours
PROGRAM = b"sesamectl"
COMMAND_CHARS = 8_192  # of a longer command only the beginning is looked at

# What a shell does not run: text in quotes (but for `sh -c '…'` and substitutions), here-documents, comments.
QUOTED = re.compile(
    r"""
      <<-?[ ]*(?P<q>['"]?)(?P<word>\w+)(?P=q)
    | (?P<shell>sh\s+(?:-\w+\s+){0,3}?-\w*c\s+)?(?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)")
    | (?P<joint>\\\n)
    | \\.
    | (?:^|(?<=\s))\#[^\n]*
    """,
    re.MULTILINE | re.VERBOSE,
)
SUBSTITUTION = re.compile(r"\$\([^)]*(?:\)|\Z)|`[^`]*`")
WORD = re.compile(r"[^\s;&|()<>]+")
# The lengths are bounded, for each of the first characters may begin a long word.
RUNS_CLIENT = re.compile(
    r"""
    (?:^|[;&|(`{!\n]) [ \t]*
    (?: (?: \w+=\S{0,256} | -\S{1,256} | \d+[smh]? | command(?![ ]+-[vV]) | sudo | env | exec | time | nohup | nice
          | timeout | xargs | then | do | else | if | while | until | uvx? | run | python3? ) [ \t]+ )*
    (?: [^\s;&|()<>=]{0,256}/ )? sesamectl (?![\w./=-])
    """,
    re.VERBOSE,
)

_RAW_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_own_call(tool: str, arguments: bytes) -> bool:
    """Whether this call searches or reads sesame's index."""
    if OWN_NAME.fullmatch(tool) or (SERVER.encode() in arguments and _reads_resource(arguments)):
        return True
    return PROGRAM in arguments and any(runs_client(command) for command in _commands(arguments))


def _reads_resource(arguments: bytes) -> bool:
    """Whether this is about the resources of our server."""
    given = decode_arguments(arguments)
    return given.get("server") == SERVER or str(given.get("uri", "")).startswith(RESOURCE)


def strip_server(tool: str) -> str:
    """The name of one of our tools without the server's name, where that is joined with one underscore; other names as they are."""
    return next((name for name in OWN_TOOLS if tool.endswith(f"_{name}")), tool)


def runs_client(command: str) -> bool:
    """Whether this shell command runs sesamectl."""
    return RUNS_CLIENT.search(strip_quoted(command[:COMMAND_CHARS])) is not None


def strip_quoted(command: str) -> str:
    """A shell command without what the shell does not run."""
    found, at, documents = list[str](), 0, _HereDocuments(command)
    while (match := QUOTED.search(command, at)) is not None:
        found.append(command[at : match.start()])
        if not match["word"]:
            found.append(_unquote(match))
            at = match.end()
        elif (document := documents.find(match["word"], match.end())) is not None:
            begin, at = document
            found.append(command[match.end() : begin])
        else:
            at = match.start() + len("<<")
            found.append("<<")
    return "".join([*found, command[at:]])


class _HereDocuments:
    """Where the here-documents of a command end: lines that consist of one word, by the word."""

    def __init__(self, command: str) -> None:
        self._line_ends: list[int] = []  # where the next line begins
        self._lines: dict[str, list[tuple[int, int]]] = {}
        begin = 0
        for line in command.split("\n") if "<<" in command else ():
            end = begin + len(line)
            self._lines.setdefault(line.strip(" \t"), []).append((begin, end))
            begin = end + 1
            self._line_ends.append(begin)

    def find(self, word: str, after: int) -> tuple[int, int] | None:
        """The document that begins in the line behind this place: where it begins, and where it ends."""
        begin = self._line_ends[bisect(self._line_ends, after)]
        lines = self._lines.get(word, ())
        at = bisect(lines, (begin, -1))
        return (begin, lines[at][1]) if at < len(lines) else None


def _unquote(match: re.Match[str]) -> str:
    text = match["single"] or match["double"] or ""
    if match["shell"]:
        return "\n" + text
    if match["joint"]:
        return " "
    if WORD.fullmatch(text):
        return text
    return " ".join(["''", *SUBSTITUTION.findall(match["double"] or "")])


def _commands(arguments: bytes) -> list[str]:
    try:
        given = _RAW_ARGUMENTS.decode(arguments)
        values: list[Any] = [msgspec.json.decode(given[name]) for name in ("command", "cmd") if name in given]
        several = msgspec.json.decode(given.get(COMMANDS_ARGUMENT, b"[]"))
    except (ValueError, RecursionError):
        return []
    return [_command_line(value) for value in (*values, *(several if isinstance(several, list) else [several]))]


def _command_line(value: Any) -> str:
    """A command given as a list of words (`["bash", "-lc", "…"]`) as a line: the script, if there is one."""
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        script = len(words) > 2 and words[0].endswith("sh") and re.fullmatch(r"-\w*c", words[1]) is not None
        return words[2] if script else " ".join(words)
    return value if isinstance(value, str) else ""
