"""Whether the index is consistent. Reads the file beside the running daemon, and writes nothing."""

import os
import shutil
import tempfile
from collections.abc import Iterator

from sesamectl.doctor.finding import NOTE, OK, Advice, Checkup, Finding
from sesamectl.render import size
from sesamed.errors import SchemaTooNewError
from sesamed.store.sqlite import DamagedError, ForeignError, SchemaTooOldError, check_ours
from sesamed.store.upkeep import deep_check, quick_check


def check_index(checkup: Checkup) -> Iterator[Finding]:
    """Pages, rows and the full-text index. --deep checks every entry, on a copy: that takes too long to block the writer."""
    if checkup.paths is None:
        return
    database = checkup.paths.database
    if (other := checkup.paths.neighbour) is not None:
        text = f"{other} is another program's (the TypeScript sesame has its index there) and is left alone; ours is {database}"
        yield Finding(NOTE, "index", text)
    if not os.path.exists(database):
        yield Finding(NOTE, "index", f"{database} does not exist yet")
    elif (refusal := _check_ours(checkup, database)) is not None:
        yield refusal
    elif checkup.deep:
        yield from _check_copy(checkup, database)
    else:
        yield _report(checkup, quick_check(database), "quick check; --deep checks every entry")


def _check_ours(checkup: Checkup, database: str) -> Finding | None:
    """Why no daemon of this version would open it. A damaged or an older one would be set aside."""
    try:
        check_ours(database)
    except SchemaTooNewError as error:
        return checkup.wrong("index", error.message, Advice.UPDATE)
    except ForeignError as error:
        return checkup.move_away("index", error.message, database)
    except (DamagedError, SchemaTooOldError):
        return None
    return None


def _check_copy(checkup: Checkup, database: str) -> Iterator[Finding]:
    directory = os.path.dirname(database)
    if (lacking := 2 * os.path.getsize(database) - shutil.disk_usage(directory).free) > 0:
        text = f"there is no room in {directory} for the copy that --deep checks"
        yield checkup.wrong("index", text, Advice.FREE_SPACE, size=size(lacking))
        return
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=directory) as place:
        problems = deep_check(database, os.path.join(place, "index.sqlite"))
    yield _report(checkup, problems, "every page, row and full-text entry checked")


def _report(checkup: Checkup, problems: list[str], how: str) -> Finding:
    database = "" if checkup.paths is None else checkup.paths.database
    if problems:
        return checkup.wrong("index", f"{database} is damaged: {problems[0]}", Advice.REBUILD)
    return Finding(OK, "index", f"{database} is intact ({how})")
