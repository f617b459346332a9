"""`sesamectl`: runs the command on the command line. The only place that knows exit codes.

0 success, 1 `doctor` found problems, 2 usage, 3 the daemon cannot be reached or started, 4 refused or failed,
130 interrupted. An error is one line on stderr: what is wrong, where, what to do.
"""

from __future__ import annotations

import os
import sys

from sesamectl import __version__
from sesamectl.commands import run
from sesamectl.errors import ClientError, RefusedError, RpcError, UsageError
from sesamectl.flags import COMMANDS
from sesamectl.output import require_output
from sesamectl.parse import parse
from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sesamectl.flags import Arguments, Flag

INVALID_PARAMS = -32602


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    if sys.stderr is None:  # somebody closed it, and `print` would take standard output instead
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    if sys.stdin is None:  # who asks for a terminal finds none, and who reads finds the end
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # until the end
    words = [_replace_undecodable(word) for word in (sys.argv[1:] if argv is None else argv)]
    try:
        return _run(words)
    except BrokenPipeError:  # for instance `| head`
        _discard_output()
        return 0
    except KeyboardInterrupt:
        return 130


def _run(words: list[str]) -> int:
    name = ""
    try:
        name, arguments = parse(words)
        code = 0 if _describe_itself(name, arguments) else run(name, arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except UsageError as error:
        command = f"sesamectl {error.command}".rstrip()
        return _fail(f"{error}; see `{command} --help`", 2, command)
    except ClientError as error:
        return _fail(str(error), 3)
    except RpcError as error:
        if flag := _find_refused(name, error):
            command, text = f"sesamectl {name}", error.message.removeprefix(flag.dest)
            return _fail(f"--{flag.name}{text}; see `{command} --help`", 2, command)
        return _fail(error.message, 4)
    except RefusedError as error:
        return _fail(str(error), 4)
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard_output()
        return _fail(f"cannot read or write: {error}", 4)
    return code


def _find_refused(name: str, error: RpcError) -> Flag | None:
    """The flag with a time that there is not: which times there are, the daemon knows."""
    field, colon, _ = error.message.partition(":")
    if error.code != INVALID_PARAMS or not colon:
        return None
    return next((flag for flag in COMMANDS[name].flags if flag.metavar == "WHEN" and flag.dest == field), None)


def _describe_itself(name: str, arguments: Arguments) -> bool:
    """Print help or the version if that was asked for; returns whether it was."""
    if arguments.has("help") or arguments.has("version"):
        require_output()
    if arguments.has("help"):
        from sesamectl import help  # noqa: A004  # shadows a builtin that nobody calls here
        from sesamectl.render.terminal import detect

        print(help.text(name, detect(sys.stdout).width or 100))
    elif arguments.has("version"):
        print(f"sesamectl {__version__}")
    else:
        return False
    return True


def _discard_output() -> None:
    """What could not be written is still buffered; the interpreter's flush at exit must not complain again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, AttributeError):  # stdout is not a file, or closed
        return


def _fail(message: str, code: int, command: str = "sesamectl") -> int:
    if sys.stderr is not None:  # else print would take standard output
        print(f"{command}: {clean(message)}", file=sys.stderr)
    return code


def _replace_undecodable(word: str) -> str:
    """The word with U+FFFD for bytes that are not UTF-8, which JSON cannot represent."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
