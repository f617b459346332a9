"""A workstation that ships to a hub: what it has is compared with what its daemon says, and with what is counted anew."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sesamed.config import Hub, HubProjects
from sesamed.hub import server
from sesamed.hub.claim import Identity
from sesamed.hub.outgoing import Outgoing
from sesamed.hub.progress import Reporter
from sesamed.hub.shipping import Shipper
from sesamed.store.index import let_visitors_in
from tests.support.daemon import Daemon
from tests.support.postgres import HubDatabase, run

ALL = HubProjects(allow=("**",))
COUNTED = """
    SELECT CASE WHEN team = '' THEN '' ELSE project END, team, lexeme, count(*)
    FROM sesame.hub_messages, unnest(sesame.hub_vector(language, text, ''))
    WHERE owner = session_user AND searched
      AND length(lexeme) <= 24 AND (length(lexeme) <= 8 OR lexeme !~ '[0-9]') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
KEPT = """
    SELECT project, team, word, sum(messages) FROM sesame.hub_word_counts WHERE owner = session_user GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
TOTALS = """
    SELECT CASE WHEN team = '' THEN '' ELSE project END, team, count(*), sum(words) FROM sesame.hub_messages
    WHERE owner = session_user AND searched GROUP BY 1, 2 ORDER BY 1, 2
"""
KEPT_TOTALS = """
    SELECT project, team, sum(messages), sum(words) FROM sesame.hub_totals WHERE owner = session_user AND messages > 0
    GROUP BY 1, 2 ORDER BY 1, 2
"""


# A daemon that waits for its hub as long as somebody wants: it would give up after two seconds, which a busy machine may stand still.
PATIENT = ("-c", "; ".join((
    "import sys", "from sesamed.methods import elsewhere, search, windows",
    "elsewhere.PATIENCE_MS = search.PATIENCE_MS = windows.PATIENCE_MS = 120_000",
    "from sesamed.cli import main", "sys.exit(main())",
)))  # fmt: skip


def make_machine(workstation: str, dsn: str | None = None, program: Sequence[str] = PATIENT, **config: Any) -> Daemon:
    """A machine that asks the hub there, if it has one."""
    hub = {} if dsn is None else {"hub": {"dsn": dsn, "singleUser": True}}
    daemon = Daemon({"workstationId": workstation, **hub, **config}, program=program)
    daemon.allowed.append("WARNING sesamed.hub ")  # what it would ship, it cannot: another one stands in for it
    return daemon


class Workstation:
    """One person's machine, and how it ships."""

    def __init__(self, daemon: Daemon, hub: HubDatabase, person: str = "anna", **settings: Any) -> None:
        self.daemon = daemon
        self.hub = hub
        self.person = person
        self.config = Hub(**{"dsn": hub.dsn(person), "projects": ALL, **settings})
        self.id = daemon.call("status")["workstation"]["id"]
        self.identity = Identity(self.id, str(daemon.data_dir), person)
        let_visitors_in(str(daemon.database))

    def change(self, **settings: Any) -> None:
        """Another configuration."""
        self.config = msgspec.structs.replace(self.config, **settings)

    def shipper(self, connection: Any) -> Shipper:
        """What ships over this connection."""
        reporter = Reporter(str(self.daemon.directory / "hub.json"))
        database = str(self.daemon.database)
        return Shipper(database, connection, self.identity, self.config, Outgoing(self.config), reporter)

    def ship(self) -> None:
        """Ship all that is indexed."""
        self.daemon.sync()
        with server.connect(self.config) as connection:
            self.shipper(connection).catch_up()

    def sessions(self) -> dict[str, dict[str, Any]]:
        """What the hub has of this person's sessions, by their keys."""
        with self.hub.connect(self.person) as connection:
            cursor = connection.execute("SELECT * FROM sesame.hub_sessions WHERE owner = session_user")
            names = [column.name for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
        return {row["composite_key"]: row for row in rows}

    def texts(self) -> dict[str, dict[int, str]]:
        """The texts of this person's messages, by key and number."""
        found: dict[str, dict[int, str]] = {}
        with self.hub.connect(self.person) as connection:
            sql = "SELECT composite_key, msg_idx, text FROM sesame.hub_messages WHERE owner = session_user"
            for key, number, text in run(connection, sql):
                found.setdefault(key, {})[number] = text
        return found

    def expected(self) -> dict[str, dict[int, str]]:
        """What the daemon says of the same; results of tools do not leave."""
        found: dict[str, dict[int, str]] = {}
        for session in self._list_sessions():
            texts = self.daemon.texts(session["sessionId"])
            found[session["key"]] = {number: text.partition("\noutput:\n")[0] for number, text in enumerate(texts)}
        return found

    def _list_sessions(self) -> Iterator[dict[str, Any]]:
        offset: int | None = 0
        while offset is not None:
            page = self.daemon.call("list_sessions", limit=500, offset=offset)
            yield from page["sessions"]
            offset = page["nextOffset"]

    def check(self) -> None:
        """The hub has what the daemon has, each once, with a vector, and the counts are right."""
        expected = self.expected()
        assert self.texts() == {key: texts for key, texts in expected.items() if texts}
        sessions = self.sessions()
        assert set(sessions) == set(expected)
        self.check_counts()
        with self.hub.connect(self.person) as connection:
            for key, texts in expected.items():
                row = sessions[key]
                assert row["total"] == len(texts), key
                for number, text in texts.items():
                    if words := [word for word in text.split() if word.isalpha() and word.isascii()]:
                        connection.execute("SELECT set_config('sesame.query', %s, false)", (f"'{words[0].lower()}'",))
                        sql = "SELECT 1 FROM sesame.hub_vectors WHERE composite_key = %s AND msg_idx = %s"
                        assert run(connection, sql, key, number), (key, number)

    def check_counts(self) -> None:
        """What is counted as rows come and go is what there is."""
        with self.hub.connect(self.person) as connection:
            assert run(connection, KEPT) == run(connection, COUNTED)
            assert run(connection, KEPT_TOTALS) == run(connection, TOTALS)

    def tables(self) -> Mapping[str, int]:
        """How many rows the hub has of this person."""
        with self.hub.connect(self.person) as connection:
            names = ("hub_sessions", "hub_messages", "hub_removed", "hub_workstations")
            return Counter({name: run(connection, f"SELECT count(*) FROM sesame.{name}")[0][0] for name in names})
