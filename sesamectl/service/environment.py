"""A file of variables for the command that a timer runs, as of systemd's EnvironmentFile: `NAME=value` lines. It may hold keys, so it has
to be private, and nothing of its values is in any message.
"""

import codecs
import os
import re
import stat

from sesamectl.errors import RefusedError

MAX_BYTES = 64 << 10
NAME = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)", re.DOTALL)


class OpenToOthersError(RefusedError):
    """Others can read it."""


def read_environment(path: str) -> dict[str, str]:
    """The variables. Raises RefusedError, OpenToOthersError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            _check(path, os.fstat(descriptor))
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RefusedError(f"cannot read {path} (memory.auto.environmentFile): {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise RefusedError(f"{path} is larger than {MAX_BYTES:,} bytes (memory.auto.environmentFile)")
    return _parse(path, os.fsdecode(data.removeprefix(codecs.BOM_UTF8)))


def _check(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError(f"{path} is no regular file (memory.auto.environmentFile)")
    if found.st_uid != os.geteuid():
        raise RefusedError(f"{path} belongs to somebody else (memory.auto.environmentFile)")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise OpenToOthersError(f"{path} is open to other users (mode {mode:o}), and may hold keys; `chmod go= {path}`")


def _parse(path: str, text: str) -> dict[str, str]:
    """The last value of a name counts. Quotes around a whole value are taken off; nothing is expanded."""
    found = {}
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        said = line.strip()
        if not said or said.startswith(("#", ";")):
            continue
        match = NAME.fullmatch(said)
        if match is None or "\0" in said:
            raise RefusedError(f"{path}: line {number} is not NAME=value (memory.auto.environmentFile)")
        name, value = match.groups()
        is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
        found[name] = value[1:-1] if is_quoted else value
    return found
