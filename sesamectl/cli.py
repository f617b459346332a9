"""`sesamectl`: a command line in, a command run. The only place that knows exit codes.

0 done, 1 `doctor` found something, 2 usage, 3 the daemon cannot be reached or started, 4 refused or failed,
130 interrupted. What goes wrong is one line on stderr: what, where, what to do.
"""

from __future__ import annotations

import os
import sys

from sesamectl.commands import run
from sesamectl.errors import ClientError, RefusedError, RpcError, UsageError
from sesamectl.parse import parse
from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sesamectl.flags import Arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    words = [_decodable(word) for word in (sys.argv[1:] if argv is None else argv)]
    try:
        return _guarded(words)
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 130


def _guarded(words: list[str]) -> int:
    try:
        name, arguments = parse(words)
        code = 0 if _told(name, arguments) else run(name, arguments)
        sys.stdout.flush()
    except UsageError as error:
        command = f"sesamectl {error.command}".rstrip()
        return _fail(f"{error}; see `{command} --help`", 2, command)
    except ClientError as error:
        return _fail(str(error), 3)
    except RpcError as error:
        return _fail(error.message, 4)
    except RefusedError as error:
        return _fail(str(error), 4)
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        return _fail(f"cannot read or write: {error}", 4)
    return code


def _told(name: str, arguments: Arguments) -> bool:
    """Whether it was a question about the program itself."""
    if arguments.has("help"):
        from sesamectl import help  # noqa: A004  # what it is
        from sesamectl.render.terminal import of

        print(help.text(name, of(sys.stdout).width or 100))
    elif arguments.has("version"):
        from sesamectl.version import own

        print(f"sesamectl {own()}")
    else:
        return False
    return True


def _drop_output() -> None:
    """What could not be written is still in the buffer; the interpreter's own flush at the end must not complain again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # it is no file at all
        return


def _fail(message: str, code: int, command: str = "sesamectl") -> int:
    print(f"{command}: {clean(message)}", file=sys.stderr)
    return code


def _decodable(word: str) -> str:
    """The word with U+FFFD for bytes that are no UTF-8: JSON has no way to say them."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
