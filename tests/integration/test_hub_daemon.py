"""A daemon with a hub: what is appended is there without being asked for, and a hub that is not there is none of the daemon's troubles."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from sesamed.hub import __main__ as shipping_process
from sesamed.hub import progress, server
from sesamed.hub.orders import Orders
from tests.support.daemon import Daemon, eventually
from tests.support.hub import Workstation
from tests.support.postgres import HubDatabase, Server, find_programs, needs_postgres, run
from tests.support.sessions import PiSession

pytestmark = needs_postgres
ALLOW = {"projects": {"allow": ["**"]}}


@pytest.fixture
def hub(hub_database: HubDatabase) -> HubDatabase:
    with hub_database.connect("keeper") as connection:
        server.migrate(connection)
    return hub_database


def status(daemon: Daemon) -> dict[str, Any]:
    """What the status says of the hub."""
    said: dict[str, Any] = daemon.call("status")["hub"]
    return said


def find_child(daemon: Daemon, other_than: int = 0) -> int:
    """The process that ships."""

    def find() -> int | None:
        said = progress.read(str(daemon.data_dir))
        return None if said is None or said.pid == other_than else said.pid

    found = eventually(find)
    assert found is not None
    return found


def is_running(pid: int) -> bool:
    """Whether there is such a process; whoever started it has waited for its end."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_all(here: Workstation) -> bool:
    """Whether the hub has what the daemon has."""
    return here.texts() == {key: texts for key, texts in here.expected().items() if texts}


def test_what_is_appended_is_in_the_hub(hub: HubDatabase) -> None:
    with Daemon({"hub": {"dsn": hub.dsn("anna"), **ALLOW}}) as daemon:
        here = Workstation(daemon, hub)
        session = PiSession(id="s").user("a plum")
        daemon.write("s.jsonl", session.bytes())
        daemon.sync()
        eventually(lambda: here.sessions() and has_all(here))
        before = len(session.bytes())
        daemon.append("s.jsonl", session.assistant("a pear").bytes()[before:])
        daemon.sync()
        eventually(lambda: has_all(here))
        here.check()
        eventually(lambda: status(daemon)["phase"] == "idle")
        said = status(daemon)
        assert (said["error"], said["cause"], said["behind"], said["comparing"]) == (None, None, 0, False)
        assert said["sessions"] >= 1
        assert said["shippedAt"] is not None
        child = find_child(daemon)
    assert not is_running(child)


def test_without_a_hub_there_is_no_process_for_it(hub: HubDatabase) -> None:
    with Daemon() as daemon:
        assert daemon.call("status")["hub"] is None
        assert not (daemon.data_dir / "hub.json").exists()
    with Daemon({"hub": {"dsn": hub.dsn("anna")}}) as daemon:  # nothing is allowed to leave
        here = Workstation(daemon, hub)
        daemon.fill()
        eventually(lambda: status(daemon)["phase"] == "idle")
        assert here.sessions() == {}


@pytest.mark.fault(122)
def test_whoever_is_killed_goes_on(hub: HubDatabase) -> None:
    """The process that ships, which the daemon starts again; and the daemon, after which nothing of it is left."""
    daemon = Daemon({"hub": {"dsn": hub.dsn("anna"), **ALLOW}})
    daemon.allowed.append("shipping to the hub")
    with daemon:
        daemon.fill(30)
        child = find_child(daemon)
        os.kill(child, signal.SIGKILL)
        here = Workstation(daemon, hub)
        eventually(lambda: has_all(here))
        child = find_child(daemon, child)
        daemon.write("more.jsonl", PiSession(id="more").user("a medlar").bytes())
        daemon.kill()
        eventually(lambda: not is_running(child))
        daemon.start()
        daemon.sync()
        eventually(lambda: has_all(here))
        here.check()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may stop and kill."""
    programs = find_programs()
    assert programs is not None
    server = Server(programs)
    try:
        yield server
    finally:
        server.remove()


@pytest.mark.fault(124)
def test_a_hub_that_stands_still_is_told(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is stopped, and no connection is cut: who ships waits, says so, and goes on."""
    monkeypatch.setattr(progress, "SILENT_S", 0.5)
    monkeypatch.setattr(shipping_process, "WATCH_S", 0.05)
    monkeypatch.setattr(shipping_process, "REST_S", 0.1)
    database = HubDatabase(own_server.start())
    with database.connect("keeper") as connection:
        server.migrate(connection)
    bell = shipping_process.Bell()
    with Daemon() as daemon:
        here = Workstation(daemon.fill(), database)
        reporter = progress.Reporter(str(daemon.data_dir / progress.FILE))
        orders = Orders(database=str(daemon.database), hub=here.config, identity=here.identity, progress=reporter.path)
        threads = [
            threading.Thread(target=shipping_process.run, args=(orders, bell, reporter)),
            threading.Thread(target=shipping_process.watch, args=(bell, reporter)),
        ]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: reporter.said.phase == "idle")
            with own_server.connect() as connection:
                ((pid,),) = run(connection, "SELECT pid FROM pg_stat_activity WHERE usename LIKE 'anna%%'")
            os.kill(pid, signal.SIGSTOP)
            daemon.write("later.jsonl", PiSession(id="later").user("a damson").bytes())
            daemon.sync()
            bell._ring(for_good=False)
            said = eventually(lambda: told if (told := progress.read(str(daemon.data_dir))) and told.error else None)
            assert said is not None
            assert (said.phase, said.cause) == ("waiting", "deadline")
            assert "has not answered" in str(said.error)
            os.kill(pid, signal.SIGCONT)
            eventually(lambda: reporter.said.phase == "idle" and reporter.said.error is None)
            here.check()
        finally:
            with suppress(UnboundLocalError, ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            bell._ring(for_good=True)
            for thread in threads:
                thread.join()


@pytest.mark.fault(124)
def test_a_hub_that_comes_and_goes_gets_everything(own_server: Server) -> None:
    """It is not there at first, is killed, and comes back; the daemon answers all the time and says how it stands."""
    dsn = own_server.dsn("postgres", "postgres")
    with own_server.start().connect() as connection:
        server.migrate(connection)
    own_server.stop()
    daemon = Daemon({"hub": {"dsn": dsn, "singleUser": True, **ALLOW}})
    daemon.allowed.append("no connection to the hub")
    with daemon:
        daemon.fill()
        eventually(lambda: status(daemon)["phase"] == "waiting")
        assert status(daemon)["cause"] == "network"
        assert daemon.found("quince")
        assert daemon.call("status")["state"] == "ready"  # nothing local is wrong
        own_server.start()
        hub = HubDatabase.__new__(HubDatabase)
        hub.dsn = lambda person: dsn  # type: ignore[method-assign]  # one person's hub
        here = Workstation(daemon, hub, single_user=True)
        eventually(lambda: has_all(here))
        own_server.stop(signal.SIGQUIT)
        daemon.write("later.jsonl", PiSession(id="later").user("a damson").bytes())
        daemon.sync()
        eventually(lambda: status(daemon)["error"] is not None)
        own_server.start()
        eventually(lambda: has_all(here))
        eventually(lambda: status(daemon)["error"] is None)
        here.check()
        assert os.path.exists(daemon.data_dir / "hub.json")
