"""The index itself: whether it agrees with itself. Reads the file beside the daemon, and writes nothing."""

from __future__ import annotations

import os
import shutil
import tempfile

from sesamectl.doctor import NOTE, OK, WRONG, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sesamectl.doctor import Patient

REBUILD = "`sesamectl index --full` builds it anew, and keeps what is gone from disk"


def integrity(patient: Patient) -> Iterator[Finding]:
    """Pages, rows and the full-text index. With --deep every entry, on a copy: such a check would hold up who writes."""
    from sesamed.store.check import quick_check

    database = "" if patient.place is None else patient.place.database
    if not os.path.exists(database):
        yield Finding(NOTE, "index", f"{database} is not made yet")
        return
    if patient.deep:
        yield from _deep(database)
        return
    yield from _told(database, quick_check(database), "quick check, --deep looks at every entry")


def _deep(database: str) -> Iterator[Finding]:
    from sesamed.store.check import deep_check

    if shutil.disk_usage(os.path.dirname(database)).free < 2 * os.path.getsize(database):
        yield Finding(WRONG, "index", "a deep check works on a copy, and there is no room for one", "free some space")
        return
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=os.path.dirname(database)) as directory:
        problems = deep_check(database, os.path.join(directory, "index.sqlite"))
        yield from _told(database, problems, "every page, row and full-text entry was checked")


def _told(database: str, problems: list[str], how: str) -> Iterator[Finding]:
    if problems:
        yield Finding(WRONG, "index", f"{database} is damaged: {problems[0]}", REBUILD)
    else:
        yield Finding(OK, "index", f"{database} is whole ({how})")
