"""Ships what changed in the index to the hub, in the order of revisions, and goes on where the hub says that it is.

The position stands in the hub and moves in the transaction that brings the rows: whatever ends it, on whichever side, all of a transaction
is there or nothing of it, and the next one begins by reading the position. What is in the hub already is found by its digest, and costs
nothing again.

One transaction has so much that fits into memory, and the next part is read when it is committed: a hub that is slow makes shipping slow,
and nothing else.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sesamed.config import Hub
from sesamed.hub.claim import Claim, Identity, MovedError, Position, check_team
from sesamed.hub.outgoing import MessageRow, Outgoing, SessionRow, is_of
from sesamed.hub.progress import Reporter
from sesamed.hub.rows import Known, Rows
from sesamed.hub.server import check_schema, errors
from sesamed.model import digest
from sesamed.store.index import visit
from sesamed.store.reading import leaving
from sesamed.store.reading.leaving import Leaving
from sesamed.store.reading.summary import list_changes, read_revision, read_sessions
from sesamed.store.search import filters

if TYPE_CHECKING:
    from sesamed.hub.server import Connection

SESSIONS = 200  # of which a batch is made
PAGE = 500  # records that are read at a time
ROWS, BYTES = 4000, 8 << 20  # of a transaction
MOST_PENDING = 1 << 20  # sessions that changed while a comparison went on
IDENTIFY_S = 600.0  # after which a repository's address is read again
LEFT_BEHIND = 200  # sessions that are removed in one transaction
WHERE = filters.to_sql(filters.Where())


class Departure(NamedTuple):
    """A session that leaves, and after which revision its records do."""

    leaving: Leaving
    row: SessionRow
    since: int


class Batch(NamedTuple):
    """What changed up to a revision: what leaves, what has to go, and how much there is beyond."""

    departures: list[Departure]
    removed: list[str]
    revision: int
    behind: int


class Shipper:
    """Ships from one index over one connection."""

    def __init__(
        self,
        database: str,
        connection: "Connection",
        identity: Identity,
        hub: Hub,
        outgoing: Outgoing,
        reporter: Reporter,
    ) -> None:
        self._database = database
        self._claim = Claim(connection, identity, single_user=hub.single_user)
        self._hub = hub
        self._outgoing = outgoing
        self._reporter = reporter
        self._workstation = identity.workstation
        self._identified_s = -IDENTIFY_S
        self._connection = connection

    def catch_up(self, has_to_end: Callable[[], bool] = lambda: False) -> bool:
        """Ship until the hub has all that there is now; what comes meanwhile may come without end. Gives whether all was compared: that
        is not done again. Raises HubError.
        """
        self._reporter.begin("shipping")
        with errors():
            check_schema(self._connection)
            position, target = self._begin()
            has_compared = position.comparing
            while not has_to_end():
                try:
                    if position.revision < target:
                        position = self._ship(position)
                    elif position.comparing:
                        position = self._finish(position)
                    else:
                        self._claim.note_seen()
                        self._reporter.succeed()
                        break
                except MovedError:
                    position, target = self._begin()
            return has_compared

    def _begin(self) -> tuple[Position, int]:
        """The position, which is a new beginning where that of another index, or of other rules, is no use; and the last revision."""
        position = self._claim.read()
        check_team(self._connection, self._hub)
        if time.monotonic() - self._identified_s >= IDENTIFY_S:
            self._outgoing.remember(Rows(self._connection, self._workstation).read_identities())
            self._identified_s = time.monotonic()
        with visit(self._database) as index:
            revision, epoch = read_revision(index)
        epoch = f"{digest(f'{epoch}:{self._workstation}'.encode()):016x}"
        rules = self._outgoing.rules
        if (position.epoch, position.rules) != (epoch, rules) or position.revision > revision:
            with self._claim.moving(position) as (_, after):
                position = after._replace(
                    epoch=epoch, rules=rules, revision=0, pass_number=after.pass_number + 1, comparing=True
                )
                self._claim.move(position)
        self._reporter.said.workstation = self._workstation
        self._reporter.said.comparing, self._reporter.said.revision = position.comparing, position.revision
        self._reporter.begin("shipping")
        return position, revision

    def _ship(self, position: Position) -> Position:
        """The next batch."""
        batch = self._read_batch(position)
        self._reporter.said.behind = batch.behind
        if batch.revision <= position.revision:  # another index has come, which has not come so far
            raise MovedError
        parts = self._read_parts(batch.departures)
        part = next(parts, [])
        while (following := next(parts, None)) is not None:
            position = self._put(position, batch, part, is_last=False)
            part = following
        return self._put(position, batch, part, is_last=True)

    def _put(self, position: Position, batch: Batch, part: list[MessageRow], *, is_last: bool) -> Position:
        """One transaction: with the last one of a batch the position moves beyond it."""
        sessions = [departure.row for departure in batch.departures]
        with self._claim.moving(position) as (rows, after):
            rows.remove(batch.removed)
            rows.put_sessions(sessions, are_whole=is_last)
            changed = rows.put_messages(part)
            rows.share((session.project, session.team) for session in sessions if session.team)
            if is_last:
                rows.cut(sessions)
                rows.fit(sessions)
                after = after._replace(revision=batch.revision)
            self._claim.move(after)
        self._reporter.said.revision = after.revision
        self._reporter.count(len(sessions) if is_last else 0, changed)
        return after

    def _finish(self, position: Position) -> Position:
        """After a comparison: what it has not met is no more, unless it has changed since and comes later."""
        with visit(self._database) as index:
            changes = list_changes(index, WHERE, position.revision, MOST_PENDING, self._workstation)
        pending = [session.key for session in changes.sessions]
        with self._claim.moving(position) as (rows, after):
            left = rows.list_left_behind(LEFT_BEHIND, pending)
            rows.remove(left)
            if len(left) < LEFT_BEHIND:
                rows.share_alone()
                after = after._replace(comparing=False)
            self._claim.move(after)
        self._reporter.count(0, 0)
        return after

    def _read_batch(self, position: Position) -> Batch:
        with visit(self._database) as index:
            changes = list_changes(index, WHERE, position.revision, SESSIONS, self._workstation)
            numbers = dict(zip(changes.numbers, changes.sessions, strict=True))
            numbers |= read_sessions(index, leaving.list_continuing(index, numbers), self._workstation)
            denied = {number for number in numbers if self._outgoing.denies(index, number)}
            resting = {*leaving.list_resting(index, denied)} - numbers.keys()
            numbers |= read_sessions(index, resting, self._workstation)
            denied |= {number for number in resting if self._outgoing.denies(index, number)}
            allowed = {
                number: session
                for number, session in numbers.items()
                if number not in denied and self._outgoing.means(session)
            }
            leaves = [leaving.read_leaving(index, number, session) for number, session in allowed.items()]
        rows = [self._outgoing.make_session(found) for found in leaves]
        known = Rows(self._connection, self._workstation).read_known(row.composite_key for row in rows)
        departures = [
            Departure(found, row, self._since(position, found, row, known))
            for found, row in zip(leaves, rows, strict=True)
        ]
        there = {row.composite_key for row in rows}
        gone = {removed.key for removed in changes.removed}
        gone |= {session.key for number, session in numbers.items() if number not in allowed}
        gone = {key for key in gone - there if is_of(key, self._workstation)}
        return Batch(departures, sorted(gone), changes.revision, changes.total)

    @staticmethod
    def _since(position: Position, found: Leaving, row: SessionRow, known: dict[str, Known]) -> int:
        """After which revision a session's records leave: all of them, if the hub may have none of them as they would be now."""
        is_as_it_was = known.get(row.composite_key) == Known(row.project, row.team, row.language, position.pass_number)
        return position.revision if is_as_it_was and not position.comparing and not found.inherits else 0

    def _read_parts(self, departures: list[Departure]) -> Iterator[list[MessageRow]]:
        """The records of these sessions, as many at a time as a transaction has."""
        part: list[MessageRow] = []
        size = 0
        for departure in departures:
            for first in range(0, departure.leaving.total, PAGE):
                for row in self._read_page(departure, first):
                    part.append(row)
                    size += row.bytes
                    if len(part) >= ROWS or size >= BYTES:
                        yield part
                        part, size = [], 0
        if part:
            yield part

    def _read_page(self, departure: Departure, first: int) -> list[MessageRow]:
        with visit(self._database) as index:
            number = departure.leaving.number
            if not leaving.is_still(index, departure.leaving) or self._outgoing.denies(index, number):
                raise MovedError
            records = leaving.read_records(
                index, number, first, PAGE, departure.since, with_results=self._outgoing.with_results
            )
        return [self._outgoing.make_message(departure.row, record) for record in records]
