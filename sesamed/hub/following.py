"""Following: sessions of other machines, as far as the hub shows them and `hub.follow` names them, are kept here as files.

A workstation's serial grows with each transaction that it ships, and these become visible in their order: so what is above the serial that
was seen last is what is new. At the start, after an error, when something else is shared, and now and then, all sessions are compared with
the files that there are. What the hub does not show any more goes; a hub that cannot be asked changes nothing.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from sesamed.config import Hub
from sesamed.hub.followed_files import FollowedFiles, Kept
from sesamed.hub.migrations import CHANNEL
from sesamed.hub.outgoing import Patterns
from sesamed.hub.server import check_schema, errors
from sesamed.model import digest, encode
from sesamed.sources.hub import ABOUT, CALLED, HEADER, SAID, WORKSTATION, Line, encode_line, identify
from sesamed.sources.records import SHORT_CHARS
from sesamed.store.index import visit
from sesamed.store.writing.decisions import is_forgotten

if TYPE_CHECKING:
    from sesamed.hub.server import Connection

log = logging.getLogger(__name__)

PERSON = "@"  # begins what names a person, not a project
COMPARE_S = 600.0
ROWS = 100  # of a session, at a time
MOST_CHARACTERS = 1 << 20  # of a text: less is indexed, unless somebody has set limits.maxChunkBytes higher
BYTES_PER_S = 8 << 20  # so much is written: who reads it has other things to do
MOST_BYTES = 20 << 30  # of all that is followed
LEAST_FREE = 1 << 30  # of the disk
MOST_STALE = 64 << 10  # bytes of a file that count no more, or half of it: then it is written anew

READ_ONLY = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Whose a stranger's machine is says its role: a name, it may give itself.
STATIONS = """
SELECT owner, workstation_id, CASE WHEN owner = session_user THEN person ELSE owner END AS called, serial FROM sesame.hub_workstations
WHERE workstation_id <> %(workstation)s ORDER BY owner, workstation_id
"""
SHARES = "SELECT owner, workstation_id, project, team FROM sesame.hub_shares ORDER BY 1, 2, 3, 4"
OF = "owner = %(owner)s AND workstation_id = %(workstation)s"
CHANGED = f"""
SELECT composite_key, project, cwd, project_path, serial, digest FROM sesame.hub_sessions WHERE {OF} AND serial > %(since)s
ORDER BY modified DESC, composite_key
"""
REMOVED = f"SELECT composite_key FROM sesame.hub_removed WHERE {OF} AND serial > %(since)s"
THIS = f"{OF} AND composite_key = %(key)s"
SESSION = f"""
SELECT source, session_id, cwd, project_path, git_branch, parent_session_id, subagent, title, summary, description, tags, recall_words,
  floor(extract(epoch FROM created) * 1000)::bigint, floor(extract(epoch FROM modified) * 1000)::bigint, serial, digest
FROM sesame.hub_sessions WHERE {THIS}
"""
GAINED = f"""
SELECT count(*), count(*) FILTER (WHERE serial > %(since)s), min(msg_idx) FILTER (WHERE serial > %(since)s), max(msg_idx)
FROM sesame.hub_messages WHERE {THIS}
"""
MESSAGES = f"""
SELECT msg_idx, record_key, role, kind, tool, is_error, entry_id, floor(extract(epoch FROM time) * 1000)::bigint, undone, searched, prompt,
  left(text, {MOST_CHARACTERS})
FROM sesame.hub_messages WHERE {THIS} AND msg_idx > %(last)s ORDER BY msg_idx
"""


class Station(NamedTuple):
    """Another machine, and how far it has shipped."""

    owner: str
    workstation: str
    person: str
    serial: int


class Follower:
    """Follows over one connection."""

    def __init__(
        self, connection: "Connection", hub: Hub, workstation: str, files: FollowedFiles, database: str
    ) -> None:
        self._connection = connection
        self._workstation = workstation
        self._files = files
        self._database = database
        self._projects = Patterns(glob for glob in hub.follow if not glob.startswith(PERSON))
        self._persons = [glob.removeprefix(PERSON) for glob in hub.follow if glob.startswith(PERSON)]
        self._serials: dict[tuple[str, str], int] = {}  # up to which all of a machine is here
        self._shares: list[Any] | None = None  # who shows us what
        self._compared_s = 0.0
        self._wanted: set[str] = set()  # the files that there have to be, while all are compared
        self.bytes: dict[str, int] = {}  # of each file
        self.total = 0  # of all
        self.brought = 0  # sessions that were written to, since the start
        self.trouble: str | None = None  # why not all of them are
        with errors():
            check_schema(connection)
            connection.execute(f"LISTEN {CHANNEL}")
            ((self._role,),) = connection.execute("SELECT session_user").fetchall()

    def wait(self, timeout_s: float) -> None:
        """Until somebody has shipped something, or for so long."""
        with errors():
            for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
                pass

    def catch_up(self, has_ended: Callable[[], bool] = lambda: False) -> None:
        """Keep what is to be followed as the hub has it now. Raises HubError."""
        with errors():
            values = {"workstation": self._workstation}
            stations = [Station(*row) for row in self._connection.execute(STATIONS, values).fetchall()]
            stations = [station for station in stations if WORKSTATION.fullmatch(station.workstation)]
            shares = [self._connection.execute(SHARES).fetchall(), [station[:2] for station in stations]]
            now_s = time.monotonic()
            if compares := shares != self._shares or now_s - self._compared_s > COMPARE_S:
                self._serials.clear()
                self._wanted.clear()
                self.bytes = self._files.measure()
                self.total = sum(self.bytes.values())
            self.trouble = None
            for station in stations:
                self._follow(station, has_ended)
            if compares and not has_ended():
                self._remove(self.bytes.keys() - self._wanted)
                self._shares, self._compared_s = shares, now_s

    def _follow(self, station: Station, has_ended: Callable[[], bool]) -> None:
        """Keep what is to be followed of one machine."""
        since = self._serials.get(station[:2], -1)
        if since == station.serial:
            return
        with self._snapshot():
            values = {"owner": station.owner, "workstation": station.workstation, "since": since}
            changed = self._connection.execute(CHANGED, values).fetchall()
            removed = [key for (key,) in self._connection.execute(REMOVED, values)]
        wanted = {row[0]: row[4:] for row in changed if self._is_wanted(station, *row[1:4])}
        self._wanted |= {self._find_path(station, key) for key in wanted}
        gone = {*removed, *(row[0] for row in changed)} - wanted.keys()
        self._remove(self._find_path(station, key) for key in gone)
        for key, (serial, number) in wanted.items():
            if has_ended():
                return
            kept = self._files.find(station.workstation, station.owner, key)
            if kept is None or (kept.about.serial, kept.about.digest) != (serial, number):
                self._bring(station, key, kept)
        if self.trouble is None:
            self._serials[station.owner, station.workstation] = station.serial

    def _remove(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            self._files.remove(path)
            self.total -= self.bytes.pop(path, 0)

    def _is_wanted(self, station: Station, project: str, *paths: str | None) -> bool:
        if any(fnmatchcase(name, glob) for glob in self._persons for name in (station.person, station.owner)):
            return True
        return self._projects.match([path for path in paths if path and path.startswith("/")] or ["/"], project)

    def _find_path(self, station: Station, key: str) -> str:
        return self._files.path_of(station.workstation, station.owner, key)

    # -- one session

    def _snapshot(self) -> Any:
        transaction = self._connection.transaction()
        return _ReadOnly(self._connection, transaction)

    def _bring(self, station: Station, key: str, kept: Kept | None) -> None:
        """Have a session here as the hub has it."""
        values = {"owner": station.owner, "workstation": station.workstation, "key": key}
        begun_s = time.monotonic()
        with self._snapshot():
            row = self._connection.execute(SESSION, values).fetchone()
            if row is None:  # it has gone meanwhile
                return
            header, about = _make_header(station, key, row), _make_about(row)
            path = self._find_path(station, key)
            if self._is_forgotten(header):
                self._remove([path])
                return
            if not self._has_room():
                return
            gained = kept if kept is not None and _is_same(kept.header, header) else None
            written = self._append(values, gained, about) if gained is not None else None
            if written is None:
                (count, _, _, last) = self._count(values, -1)
                about.count, about.last = count, -1 if last is None else last
                self.total -= self.bytes.pop(path, 0)
                written = self._files.write(header, self._read(values, -1), about)
            self.bytes[path] = self.bytes.get(path, 0) + written
        self.total += written
        self.brought += 1
        time.sleep(max(0.0, written / BYTES_PER_S - (time.monotonic() - begun_s)))

    def _append(self, values: dict[str, Any], kept: Kept, about: Line) -> int | None:
        """Add what the session gained, if that is all that is new in it; gives the bytes."""
        count, fresh, first, last = self._count(values, kept.about.serial)
        has_only_grown = first is None or first > kept.about.last
        about.stale = kept.about.stale + len(encode_line(kept.about))
        is_stale = about.stale > max(MOST_STALE, kept.bytes // 2)
        if about.serial < kept.about.serial or not has_only_grown or count != kept.about.count + fresh or is_stale:
            about.stale = 0
            return None
        about.count, about.last = count, -1 if last is None else last
        return self._files.append(kept, self._read(values, kept.about.last), about)

    def _count(self, values: dict[str, Any], since: int) -> tuple[int, int, int | None, int | None]:
        (row,) = self._connection.execute(GAINED, {**values, "since": since}).fetchall()
        return row

    def _read(self, values: dict[str, Any], last: int) -> Iterator[Line]:
        with self._connection.cursor(name="following") as cursor:
            cursor.itersize = ROWS
            for row in cursor.execute(MESSAGES, {**values, "last": last}):
                yield _make_line(row, "" if values["owner"] == self._role else values["owner"])

    def _is_forgotten(self, header: Line) -> bool:
        """Whether somebody has said here that this session is never to be kept."""
        with visit(self._database) as index:
            return is_forgotten(index, header.source, identify(header))

    def _has_room(self) -> bool:
        """Whether more may be kept; if not, that is said."""
        space = os.statvfs(self._files.directory)
        if space.f_bavail * space.f_frsize < LEAST_FREE:
            self.trouble = f"less than {LEAST_FREE >> 30} GiB of the disk are free: no more sessions are followed until there is space"
        elif self.total > MOST_BYTES:
            self.trouble = (
                f"sessions that are followed have {MOST_BYTES >> 30} GiB: no more are; name fewer in hub.follow"
            )
        return self.trouble is None


class _ReadOnly:
    """A transaction that sees the hub as it is at its beginning."""

    def __init__(self, connection: "Connection", transaction: Any) -> None:
        self._connection, self._transaction = connection, transaction

    def __enter__(self) -> None:
        self._transaction.__enter__()
        self._connection.execute(READ_ONLY)

    def __exit__(self, *error: Any) -> Any:
        return self._transaction.__exit__(*error)


def _is_same(one: Line, other: Line) -> bool:
    """Whether a file goes on under its header."""
    fields = ("source", "session", "person", "cwd", "key", "owner")
    return all(getattr(one, field) == getattr(other, field) for field in fields)


def _short(text: str | None) -> str:
    return (text or "")[:SHORT_CHARS]


def _make_header(station: Station, key: str, row: Sequence[Any]) -> Line:
    return Line(
        type=HEADER,
        workstation=station.workstation,
        owner=_short(station.owner),
        person=_short(station.person),
        source=row[0],
        session=_short(row[1]),
        key=_short(key),
        cwd=_short(row[2]),
    )


def _make_about(row: Sequence[Any]) -> Line:
    return Line(
        type=ABOUT,
        cwd=_short(row[2]),
        project_path=_short(row[3]),
        git_branch=_short(row[4]),
        parent=_short(row[5]),
        subagent=row[6],
        title=row[7] or "",
        summary=row[8] or "",
        description=row[9] or "",
        tags=row[10],
        recall_words=row[11],
        created_ms=row[12],
        modified_ms=row[13],
        serial=row[14],
        digest=row[15],
    )


def _make_line(row: Sequence[Any], stranger: str) -> Line:
    """A record. The keys of somebody else's are told from all others: what they ship cannot stand for what another one said."""
    _, key, role, kind, tool, is_error, entry, time_ms, undone, searched, prompt, text = row
    is_call = kind == "tool_call"
    return Line(
        type=CALLED if is_call else SAID,
        record=digest(encode(stranger), b"\0", str(key).encode()) if stranger else key,
        role=role,
        text=text,
        prompt=prompt,
        tool=tool or "",
        is_error=is_error,
        hidden=not searched,
        entry=_short(entry),
        time_ms=time_ms,
        undone=undone,
    )
