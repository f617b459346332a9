"""Which workstation a row in the hub is of: one index, one person. Two with one id would remove what the other has shipped, so the second
one is refused, until somebody says that it is the one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sesamed.config import Hub
from sesamed.errors import HubError
from sesamed.hub.migrations import CHANNEL
from sesamed.hub.rows import Rows

if TYPE_CHECKING:
    from sesamed.hub.server import Connection

ROLE = "SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user"
OTHERS = "SELECT workstation_id, instance, person FROM sesame.hub_workstations WHERE owner = session_user"
COLUMNS = "epoch, rules, revision, pass, comparing, serial"
OWN = "WHERE owner = session_user AND workstation_id = %(workstation)s"
READ = f"SELECT {COLUMNS} FROM sesame.hub_workstations {OWN} AND instance = %(instance)s"
CLAIM = """
INSERT INTO sesame.hub_workstations(workstation_id, instance, person, epoch, rules)
VALUES(%(workstation)s, %(instance)s, %(person)s, '', '')
ON CONFLICT (owner, workstation_id) DO NOTHING
"""
TAKE_OVER = (
    f"UPDATE sesame.hub_workstations SET instance = %(instance)s, person = %(person)s, epoch = '', since = now() {OWN}"
)
LOCK = f"{READ} FOR UPDATE"
MOVE = f"""
UPDATE sesame.hub_workstations SET epoch = %(epoch)s, rules = %(rules)s, revision = %(revision)s, pass = %(pass_number)s,
  comparing = %(comparing)s, serial = %(serial)s, seen_at = now() {OWN}
"""
SEEN = f"UPDATE sesame.hub_workstations SET seen_at = now() {OWN}"
LEAVE = f"DELETE FROM sesame.hub_workstations {OWN}"
BATCH = 500  # sessions that are removed in one transaction


MEMBERSHIP = "SELECT accepted FROM sesame.hub_members WHERE team = %s AND member = session_user"


def check_team(connection: "Connection", hub: Hub) -> None:
    """Raise HubError if something is to be shared with a team that this role is not in, or has not accepted."""
    if not (hub.team and hub.projects.share):
        return
    row = connection.execute(MEMBERSHIP, (hub.team,)).fetchone()
    if row == (True,):
        return
    team, ((role, _),) = hub.team.replace("'", "''"), connection.execute(ROLE).fetchall()
    if row is None:
        raise HubError(
            f"the role {role} is not in the team {hub.team!r} of hub.team, or there is none of that name; whoever keeps the team says: "
            f"INSERT INTO sesame.hub_members(team, member) VALUES ('{team}', '{role}')",
            cause="rights",
        )
    raise HubError(
        f"you have not accepted the team {hub.team!r} of hub.team; as the role {role} say: "
        f"UPDATE sesame.hub_members SET accepted = true WHERE team = '{team}'",
        cause="rights",
    )


class Identity(NamedTuple):
    """Who ships: a workstation's id, the index that it is of, and the person whose machine that is."""

    workstation: str
    instance: str
    person: str


class Position(NamedTuple):
    """How far a workstation has shipped. While `comparing`, what the hub has is compared with all that there is."""

    epoch: str
    rules: str
    revision: int
    pass_number: int
    comparing: bool
    serial: int


class MovedError(Exception):
    """Somebody else, or we before a connection was cut, have moved the position: it has to be read again."""


class Claim:
    """A workstation's row."""

    def __init__(self, connection: "Connection", identity: Identity, *, single_user: bool) -> None:
        self.connection = connection
        self.identity = identity
        self._single_user = single_user

    def check(self) -> None:
        """Raise HubError if it is not ours, or not to be shipped to."""
        ((role, sees_all),) = self.connection.execute(ROLE).fetchall()
        if sees_all and not self._single_user:
            raise HubError(
                f"the role {role} is above row-level security, so all would see all; use another role, or say hub.singleUser if the whole "
                "database is one person's",
                cause="account",
            )
        for workstation, instance, person in self.connection.execute(OTHERS).fetchall():
            self._check_other(role, workstation, instance, person)

    def _check_other(self, role: str, workstation: str, instance: str, person: str) -> None:
        mine = self.identity
        if workstation == mine.workstation and instance != mine.instance:
            raise HubError(
                f"another machine, or another index, ships as workstation {workstation}; set workstationId in config.jsonc on one of "
                "them, or run `sesamectl hub check --accept-id` here if the other one is no more",
                cause="workstation",
            )
        if instance == mine.instance and workstation != mine.workstation:
            raise HubError(
                f"this workstation shipped as {workstation} and is {mine.workstation} now; run `sesamectl hub check --accept-id` to remove "
                "what it shipped under the old id and ship it again, or set workstationId in config.jsonc to the old one",
                cause="workstation",
            )
        if person != mine.person and not self._single_user:
            raise HubError(
                f"the role {role} is also used by {person!r} (here it is {mine.person!r}): whoever shares a role sees everything; use a "
                "role for each person, or say hub.singleUser if they are one",
                cause="account",
            )

    def read(self) -> Position:
        """The position, which is made where there is none."""
        self.check()
        self.connection.execute(CLAIM, self.identity._asdict())
        row = self.connection.execute(READ, self.identity._asdict()).fetchone()
        if row is None:  # somebody else has just claimed it
            self.check()
            raise MovedError
        return Position(*row)

    @contextmanager
    def moving(self, seen: Position) -> Iterator[tuple[Rows, Position]]:
        """A transaction that begins at this position, with the serial of what is put into it. Raises MovedError if it is another by now."""
        with self.connection.transaction():
            row = self.connection.execute(LOCK, self.identity._asdict()).fetchone()
            if row is None or Position(*row) != seen:
                raise MovedError
            after = seen._replace(serial=seen.serial + 1)
            yield Rows(self.connection, self.identity.workstation, after.serial, after.pass_number), after

    def move(self, position: Position) -> None:
        """Note how far it is, in the transaction; others are told when it is committed."""
        self.connection.execute(MOVE, {**self.identity._asdict(), **position._asdict()})
        self.connection.execute(f"NOTIFY {CHANNEL}")

    def note_seen(self) -> None:
        """Note that the hub has all that there was by now."""
        self.connection.execute(SEEN, self.identity._asdict())

    def accept(self) -> list[str]:
        """Make this workstation's id ours, whoever had it, and remove what we shipped under another one; gives those."""
        left: list[str] = []
        for workstation, instance, _ in self.connection.execute(OTHERS).fetchall():
            if instance == self.identity.instance and workstation != self.identity.workstation:
                self.forget(workstation)
                left.append(workstation)
            elif workstation == self.identity.workstation and instance != self.identity.instance:
                self.connection.execute(TAKE_OVER, self.identity._asdict())
        return left

    def forget(self, workstation: str) -> int:
        """Remove all that this person has shipped from a workstation; gives how many sessions that were."""
        removed = 0
        while True:
            with self.connection.transaction():
                values = {"workstation": workstation}
                row = self.connection.execute(
                    f"UPDATE sesame.hub_workstations SET serial = serial + 1, epoch = '' {OWN} RETURNING serial", values
                ).fetchone()
                rows = Rows(self.connection, workstation, 0 if row is None else row[0], 1 << 62)
                keys = rows.list_left_behind(BATCH)
                removed += rows.remove(keys)
                if len(keys) < BATCH:
                    rows.share_alone()
                    self.connection.execute(LEAVE, values)
                    self.connection.execute(f"NOTIFY {CHANNEL}")
                    return removed
