"""Writes log lines to standard error, in a form that suits what it is connected to.

The journal gets priorities and has its own timestamps. When standard error is our log file (a client that starts the daemon
redirects it there), the file itself is rotated when full, so that a crash's last words still land in it. Where a service manager
has no journal, as in a container or under WSL, it leads nowhere: then it is our log file as well.
"""

import contextlib
import faulthandler
import logging
import os
import sys
from collections.abc import Mapping

FILE = "sesamed.log"  # in the data directory
MAX_BYTES = 1 << 20
OLD_LOGS = 2  # sesamed.log.1 and .2

FORM = "%(levelname)s %(name)s %(message)s"
PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (0, 7))
# Control characters, in file names for instance. Newlines stay: tracebacks have them.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def configure(level: str, environ: Mapping[str, str]) -> None:
    """Log to standard error. A crash of the interpreter leaves a traceback there: lines of code, no values."""
    handler = _Handler()
    handler.setFormatter(_Journal(FORM) if _is_journal(environ) else _Plain(f"%(asctime)s {FORM}"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(True)
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error is closed, or not a real file
        faulthandler.enable(sys.__stderr__ or sys.stderr)


def keep_own_log(data_dir: str, environ: Mapping[str, str]) -> None:
    """If standard error is the log in the data directory, or should be, make that private, and rotate it when full."""
    path = os.path.join(data_dir, FILE)
    if environ.get("NOTIFY_SOCKET") and _is_standard_error(os.devnull):
        with contextlib.suppress(OSError):  # a directory that is made later: then with the first line
            _redirect(path)
    elif not _is_standard_error(path):
        return
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler):
            if _is_standard_error(path):
                os.fchmod(2, 0o600)
            handler.path = path
            handler.rotate()


class _Plain(logging.Formatter):
    """One line per event, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).translate(_CONTROLS)


class _Journal(_Plain):
    """Every line starts with its priority, as in sd-daemon(3)."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next(number for level, number in PRIORITIES if record.levelno >= level)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).split("\n"))


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]  # generic only for type checkers
    """Writes to standard error. With a `path` it is that file, which is rotated."""

    path: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, to a new file if somebody took this one away, then rotate if the file is full."""
        if self.path is not None and not _is_standard_error(self.path):
            with contextlib.suppress(OSError):
                _redirect(self.path)
        super().emit(record)
        self.rotate()

    def rotate(self) -> None:
        """Start a new file when this one is full. If that fails, keep using the old one."""
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            if os.fstat(2).st_size >= MAX_BYTES:
                for number in range(OLD_LOGS, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}.{number - 1}" if number > 1 else self.path, f"{self.path}.{number}")
                _redirect(self.path)


def _redirect(path: str) -> None:
    """Point standard error at the file, and standard output too if both were the same."""
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
    """Whether standard error is the journal. JOURNAL_STREAM names its device and inode; a process may inherit that and log elsewhere."""
    with contextlib.suppress(OSError):
        status = os.fstat(2)
        return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
    return False
