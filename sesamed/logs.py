"""Where log lines go: to standard error, in the form that suits what it is. Knows nothing of what is said in them.

A journal gets its priorities and keeps its own time. A file of ours (who starts the daemon has put standard error there) is
turned over when it is full: the file itself, so that a crash's last words land in the same place.
"""

import contextlib
import faulthandler
import logging
import os
import sys
from collections.abc import Mapping

FILE = "sesamed.log"  # in the data directory
MAX_BYTES = 1 << 20
KEPT = 2  # full ones: sesamed.log.1 and .2

FORM = "%(levelname)s %(name)s %(message)s"
PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (0, 7))
# What a terminal would obey, in names of files for instance. Newlines stay: a trace has some.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def begin(level: str, environ: Mapping[str, str]) -> None:
    """Log to standard error. What ends the interpreter leaves a trace there, too: places in the code, no values."""
    handler = _Handler()
    handler.setFormatter(_Journal(FORM) if _is_journal(environ) else _Plain(f"%(asctime)s {FORM}"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(True)
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error is closed, or none of the system's
        faulthandler.enable(sys.__stderr__ or sys.stderr)


def keep_small(data_dir: str) -> None:
    """When standard error is the log in the data directory, let it be private, and turn it over when it is full."""
    path = os.path.join(data_dir, FILE)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler) and _is_standard_error(path):
            os.fchmod(2, 0o600)
            handler.path = path
            handler.turn_over()


class _Plain(logging.Formatter):
    """One event a line, printable."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).translate(_CONTROLS)


class _Journal(_Plain):
    """Every line begins with its priority, in the way that sd-daemon(3) says."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next(number for level, number in PRIORITIES if record.levelno >= level)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).split("\n"))


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]  # generic only for type checkers
    """Standard error. With a `path` it is that file."""

    path: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write it; then see whether the file is full."""
        super().emit(record)
        self.turn_over()

    def turn_over(self) -> None:
        """Begin a new file when this one is full. Where that cannot be done, the old one goes on."""
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            if os.fstat(2).st_size >= MAX_BYTES:
                for number in range(KEPT, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}.{number - 1}" if number > 1 else self.path, f"{self.path}.{number}")
                _redirect(self.path)


def _redirect(path: str) -> None:
    """Standard error is that file from now on, and so is standard output where both were one."""
    same = os.path.samestat(os.fstat(1), os.fstat(2))
    fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        for number in (1, 2) if same else (2,):
            os.dup2(fresh, number)
    finally:
        os.close(fresh)


def _is_standard_error(path: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(2), os.lstat(path))
    return False


def _is_journal(environ: Mapping[str, str]) -> bool:
    """JOURNAL_STREAM names the device and inode of the stream; it may be inherited by who has another one."""
    with contextlib.suppress(OSError):
        status = os.fstat(2)
        return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
    return False
