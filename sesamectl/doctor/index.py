"""Whether the index is consistent. Reads the file beside the running daemon, and writes nothing."""

import os
import shutil
import tempfile
from collections.abc import Iterator

from sesamectl.doctor.finding import NOTE, OK, WRONG, Checkup, Finding
from sesamed.store.upkeep import deep_check, quick_check

REBUILD = "`sesamectl index --full` rebuilds it, and keeps sessions whose files are gone"


def check_index(checkup: Checkup) -> Iterator[Finding]:
    """Pages, rows and the full-text index. --deep checks every entry, on a copy: that takes too long to block the writer."""
    database = "" if checkup.paths is None else checkup.paths.database
    if not os.path.exists(database):
        yield Finding(NOTE, "index", f"{database} does not exist yet")
    elif checkup.deep:
        yield from _check_copy(database)
    else:
        yield _report(database, quick_check(database), "quick check; --deep checks every entry")


def _check_copy(database: str) -> Iterator[Finding]:
    directory = os.path.dirname(database)
    if shutil.disk_usage(directory).free < 2 * os.path.getsize(database):
        yield Finding(WRONG, "index", f"no room in {directory} for the copy that --deep checks", "free some space")
        return
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=directory) as place:
        problems = deep_check(database, os.path.join(place, "index.sqlite"))
    yield _report(database, problems, "every page, row and full-text entry checked")


def _report(database: str, problems: list[str], how: str) -> Finding:
    if problems:
        return Finding(WRONG, "index", f"{database} is damaged: {problems[0]}", REBUILD)
    return Finding(OK, "index", f"{database} is intact ({how})")
