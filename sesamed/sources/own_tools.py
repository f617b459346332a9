"""Which tool calls are searches of sesame, and which messages contain their results. They are kept, but not indexed: otherwise a search
would find the searches before it.

A shell command counts when it *runs* sesamectl. One that only mentions it (`grep sesamectl README.md`) is somebody's
work, and stays findable. The shell is not parsed, only its quotes are seen: a wrong guess costs one hit.
"""

import re
from typing import Any

import msgspec

MESSAGES = frozenset(
    {"sesame-reference"}
)  # what `@@name` in a prompt told the model, by the name that pi gives to its type
TOOLS = frozenset({"search_sessions", "read_session", "list_sessions"})
PROGRAM = b"sesamectl"
COMMAND_CHARS = 8_192  # of a longer command only the beginning is looked at

# What a shell does not run: text in quotes (but for `sh -c '…'` and substitutions), here-documents, comments.
QUOTED = re.compile(
    r"""
      <<-?[ ]*(?P<q>['"]?)(?P<word>\w+)(?P=q)(?P<rest>[^\n]*)\n(?s:.*?)^[ \t]*(?P=word)[ \t]*$
    | (?P<shell>sh\s+(?:-\w+\s+){0,3}?-\w*c\s+)?(?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)")
    | (?P<joint>\\\n)
    | \\.
    | (?:^|(?<=\s))\#[^\n]*
    """,
    re.MULTILINE | re.VERBOSE,
)
SUBSTITUTION = re.compile(r"\$\([^)]*\)|`[^`]*`")
WORD = re.compile(r"[^\s;&|()<>]+")
# The lengths are bounded, for each of the first characters may begin a long word.
RUN = re.compile(
    r"""
    (?:^|[;&|(`{!\n]) [ \t]*
    (?: (?: \w+=\S{0,256} | -\S{1,256} | \d+[smh]? | command(?![ ]+-[vV]) | sudo | env | exec | time | nohup | nice
          | timeout | xargs | then | do | else | if | while | until | uvx? | run | python3? ) [ \t]+ )*
    (?: [^\s;&|()<>=]{0,256}/ )? sesamectl (?![\w./=-])
    """,
    re.VERBOSE,
)

ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_own_call(tool: str, arguments: bytes) -> bool:
    """Whether this call searches or reads sesame's index."""
    if tool in TOOLS:
        return True
    return PROGRAM in arguments and any(runs_client(command) for command in _commands(arguments))


def strip_server(tool: str) -> str:
    """The name of one of our tools without the server's name, where that is joined with one underscore; other names as they are."""
    return next((name for name in TOOLS if tool.endswith(f"_{name}")), tool)


def runs_client(command: str) -> bool:
    """Whether this shell command runs sesamectl."""
    return RUN.search(QUOTED.sub(_unquote, command[:COMMAND_CHARS])) is not None


def _unquote(match: re.Match[str]) -> str:
    text = match["single"] or match["double"] or ""
    if match["shell"]:
        return "\n" + text
    if match["word"]:
        return f"{match['rest']}\n"
    if match["joint"]:
        return " "
    if WORD.fullmatch(text):
        return text
    return " ".join(["''", *SUBSTITUTION.findall(match["double"] or "")])


def _commands(arguments: bytes) -> list[str]:
    try:
        given = ARGUMENTS.decode(arguments)
        values: list[Any] = [msgspec.json.decode(given[name]) for name in ("command", "cmd") if name in given]
    except (ValueError, RecursionError):
        return []
    return [_line(value) for value in values]


def _line(value: Any) -> str:
    """A command given as a list of words (`["bash", "-lc", "…"]`) as a line: the script, if there is one."""
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        script = len(words) > 2 and words[0].endswith("sh") and re.fullmatch(r"-\w*c", words[1]) is not None
        return words[2] if script else " ".join(words)
    return value if isinstance(value, str) else ""
