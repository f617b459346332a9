"""A hub under many workstations, and under all that may happen to it. Part of .ci/long, which says how many workstations there are."""

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from sesamed.hub import progress, server
from tests.support.daemon import Daemon, eventually
from tests.support.hub import Workstation
from tests.support.postgres import HubDatabase, Server, find_programs, needs_postgres, run
from tests.support.sessions import PiSession

WORKSTATIONS = int(os.environ.get("SESAME_WORKSTATIONS", "10"))
pytestmark = needs_postgres
ALLOW = {"projects": {"allow": ["**"]}}
KILLS = 30


@pytest.fixture
def own_server() -> Iterator[Server]:
    programs = find_programs()
    assert programs is not None
    server = Server(programs)
    try:
        yield server
    finally:
        server.remove()


def write_shared(daemon: Daemon, number: int) -> None:
    """Sessions that share their history with those of the other machines, and some of this one's own."""
    first = PiSession(id="first").user("a plum that all of them know").assistant("a pear")
    daemon.write("first.jsonl", first.bytes())
    fork = first.fork(id=f"fork-{number}").user(f"only here {number}")
    daemon.write("fork.jsonl", fork.bytes())
    daemon.write("deeper.jsonl", fork.fork(id=f"deeper-{number}").user("and further").bytes())
    for own in range(20):
        daemon.write(
            f"own-{own}.jsonl", PiSession(id=f"own-{number}-{own}").user(f"quince {own}").assistant("text").bytes()
        )


@pytest.mark.fault(130)
def test_ten_workstations_at_once(hub_database: HubDatabase) -> None:
    """Of three persons, all writing and shipping, with forks of one session; each has what it shipped, and nobody anything else."""
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    with ExitStack() as stack:
        machines: list[Workstation] = []
        for number in range(WORKSTATIONS):
            person = ("anna", "bert", "carl")[number % 3]
            hub = {"dsn": hub_database.dsn(person), **ALLOW}
            daemon = stack.enter_context(Daemon({"workstationId": f"{number:08x}", "hub": hub}))
            machines.append(Workstation(daemon, hub_database, person))
        threads = [threading.Thread(target=write_shared, args=(one.daemon, n)) for n, one in enumerate(machines)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for machine in machines:
            machine.daemon.sync()
        for machine in machines:
            expected = {key: texts for key, texts in machine.expected().items() if texts}
            eventually(lambda m=machine, e=expected: {k: t for k, t in m.texts().items() if k.startswith(m.id)} == e)  # type: ignore[misc]
        for person in ("anna", "bert", "carl"):
            machine = next(one for one in machines if one.person == person)
            machine.check_counts()
            own = {one.id for one in machines if one.person == person}
            with hub_database.connect(person) as connection:
                assert {w for (w,) in run(connection, "SELECT workstation_id FROM sesame.hub_workstations")} == own
                (doubles,) = run(
                    connection,
                    "SELECT count(*) - count(DISTINCT (workstation_id, composite_key, msg_idx)) FROM sesame.hub_messages",
                )
                assert doubles == (0,)
                copies = run(
                    connection, "SELECT count(DISTINCT record_key) FROM sesame.hub_messages WHERE text LIKE 'a plum%%'"
                )
                assert copies == [(1,)]  # in all sessions of all machines one record


@pytest.mark.fault(122)
def test_kills_on_both_sides(own_server: Server, chance: random.Random) -> None:
    """At random moments of a first fill and after it: the process that ships, the server's process for it, or all of the server."""
    own_server.start()
    database = HubDatabase(own_server)
    with database.connect("keeper") as connection:
        server.migrate(connection)
    daemon = Daemon({"hub": {"dsn": database.dsn("anna"), **ALLOW}})
    daemon.allowed.append("hub")
    with daemon:
        here = Workstation(daemon, database)
        for kill in range(KILLS):
            for number in range(30):
                session = (
                    PiSession(id=f"s{kill}-{number}")
                    .user(f"quince {number}")
                    .assistant("answer " * chance.randrange(200))
                )
                daemon.write(f"{kill}-{number}.jsonl", session.bytes())
            time.sleep(chance.random() * 2)  # when it comes is what is tried
            _kill_something(daemon, own_server, chance)
        daemon.sync()
        eventually(lambda: here.texts() == {key: texts for key, texts in here.expected().items() if texts})
        here.check_counts()


def _kill_something(daemon: Daemon, own_server: Server, chance: random.Random) -> None:
    what = chance.choice(("child", "backend", "server"))
    if what == "server":
        own_server.stop(signal.SIGQUIT)
        own_server.start()
    elif what == "child" and (said := progress.read(str(daemon.data_dir))) is not None:
        with suppress(ProcessLookupError):
            os.kill(said.pid, signal.SIGKILL)
    else:
        with own_server.connect() as connection:
            run(connection, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'anna%%'")


class Proxy:
    """Passes bytes on to a server, until it stops: then it says nothing, and closes nothing."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """A cable is pulled."""
        self._goes_on.clear()

    def go_on(self) -> None:
        """It is put back."""
        self._goes_on.set()

    def close(self) -> None:
        """No more."""
        self.go_on()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError), one, other:
            while data := one.recv(65536):
                self._goes_on.wait()
                other.sendall(data)


@pytest.mark.fault(124)
def test_a_partition_stops_nothing_here(own_server: Server) -> None:
    """A proxy that stops in the middle of a fill: local answers come, and afterwards the hub has everything."""
    own_server.start(tcp=True)
    with own_server.connect() as connection:
        run(connection, "CREATE ROLE anna LOGIN SUPERUSER PASSWORD 'p'")
        run(connection, "CREATE DATABASE hub")
    with own_server.connect(database="hub") as connection:
        server.migrate(connection)
    assert own_server.port is not None
    proxy = Proxy(own_server.port)
    dsn = f"host=127.0.0.1 port={proxy.port} user=anna dbname=hub tcp_user_timeout=2000"
    hub: dict[str, Any] = {"dsn": dsn, "passwordCommand": ["echo", "p"], "singleUser": True, **ALLOW}
    daemon = Daemon({"hub": hub})
    daemon.allowed.append("hub")
    try:
        with daemon:
            daemon.fill(200)
            eventually(lambda: daemon.call("status")["hub"]["messages"] > 0)
            proxy.stop()
            for number in range(20):
                daemon.write(f"cut-{number}.jsonl", PiSession(id=f"cut-{number}").user("a damson").bytes())
            daemon.sync()
            assert len(daemon.found("damson", limit=100)) == 20
            proxy.go_on()
            database = HubDatabase.__new__(HubDatabase)
            database.dsn = lambda person: own_server.dsn("anna", "hub")  # type: ignore[method-assign]  # one role
            here = Workstation(daemon, database, single_user=True)
            eventually(lambda: here.texts() == {key: texts for key, texts in here.expected().items() if texts})
            here.check_counts()
    finally:
        proxy.close()


@pytest.mark.fault(125)
def test_a_server_without_space(own_server: Server) -> None:
    """Its disk is full in the middle of a fill; the daemon says so, and ships when there is space."""
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=150m", "hub", own_server.data / "base"], check=False
        ).returncode
    ):
        pytest.skip("needs the right to mount")
    subprocess.run(["umount", own_server.data / "base"], check=True)
    kept = own_server.directory / "kept"
    os.rename(own_server.data / "base", kept)
    (own_server.data / "base").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=150m", "hub", own_server.data / "base"], check=True)
    try:
        subprocess.run(["cp", "-a", f"{kept}/.", own_server.data / "base"], check=True)
        os.chown(own_server.data / "base", kept.stat().st_uid, kept.stat().st_gid)
        os.chmod(own_server.data / "base", 0o700)
        own_server.start()
        database = HubDatabase(own_server)
        with database.connect("keeper") as connection:
            server.migrate(connection)
        free = os.statvfs(own_server.data / "base")
        with open(own_server.data / "base/ballast", "wb") as ballast:
            ballast.write(b"x" * (free.f_bavail * free.f_frsize - (3 << 20)))
        daemon = Daemon({"hub": {"dsn": database.dsn("anna"), **ALLOW}})
        daemon.allowed.append("hub")
        with daemon:
            for number in range(200):
                words = " ".join(f"w{number}x{word}" for word in range(400))
                daemon.write(f"{number}.jsonl", PiSession(id=f"big-{number}").user(words).assistant("quince").bytes())
            daemon.sync()
            eventually(lambda: daemon.call("status")["hub"]["cause"] == "space")
            assert daemon.found("quince")
            (own_server.data / "base/ballast").unlink()
            here = Workstation(daemon, database)
            eventually(lambda: here.texts() == {key: texts for key, texts in here.expected().items() if texts})
            here.check_counts()
    finally:
        own_server.stop(signal.SIGQUIT)
        subprocess.run(["umount", own_server.data / "base"], check=False)
