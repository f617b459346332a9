"""The process that ships, as the daemon sees it: started with its orders, woken after commits, ended with the daemon."""

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping

import anyio
import msgspec
from anyio.abc import Process

from sesamed import workstation
from sesamed.config import Config
from sesamed.errors import SesameError
from sesamed.hub import progress
from sesamed.hub.claim import Identity
from sesamed.hub.orders import Orders
from sesamed.model import digest, encode
from sesamed.store.index import let_visitors_in

PROGRAM = ("-P", "-m", "sesamed.hub")
END_S = 3.0  # after which it is not waited for any longer: what it was doing is done again


class Child:
    """Runs the process as long as the daemon runs."""

    def __init__(self, database: str, station: str, config: Config, environ: Mapping[str, str]) -> None:
        self._database = database
        self._workstation = station
        self._hub = config.hub
        self._environ = {name: value for name, value in environ.items() if name != "NOTIFY_SOCKET"}
        self._changed = anyio.Event()

    def wake(self) -> None:
        """Something was committed."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled. Raises SesameError when the process has ended by itself."""
        orders = await anyio.to_thread.run_sync(self._give_orders)
        process = await anyio.open_process(
            [sys.executable, *PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=None, env=self._environ
        )
        try:
            assert process.stdin is not None
            await process.stdin.send(msgspec.json.encode(orders) + b"\n")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pass_on, process)
                code = await process.wait()
                tasks.cancel_scope.cancel()
        finally:
            await _end(process)
        raise SesameError(f"the process that ships to the hub ended with {code}; the log says why")

    async def _pass_on(self, process: Process) -> None:
        assert process.stdin is not None
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            try:
                await process.stdin.send(b"c")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    def _give_orders(self) -> Orders:
        let_visitors_in(self._database)
        data_dir = os.path.dirname(self._database)
        return Orders(
            database=self._database,
            hub=self._hub,
            identity=identify(data_dir, self._workstation),
            progress=os.path.join(data_dir, progress.FILE),
        )


def identify(data_dir: str, station: str) -> Identity:
    """Who ships: this index on this machine, as this user. What a machine is recognised by is digested."""
    instance = digest(encode(workstation.machine_id()), b"\0", os.fsencode(os.path.realpath(data_dir)))
    return Identity(station, f"{instance:016x}", name_person())


def name_person() -> str:
    """Whose this is on this machine."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def identify_here(database: str, environ: Mapping[str, str], configured: str | None) -> Identity:
    """The same, as the daemon of this index would say it, or did when it was last started with an id of its own."""
    lines = workstation.read(database)
    now = workstation.find_given(environ, configured)
    if now is None and lines and lines[-1].origin == "WORKSTATION_ID":
        now = lines[-1]
    return identify(os.path.dirname(database), (now or workstation.find_own(lines)).id)


async def _end(process: Process) -> None:
    """Close its pipe, by which it knows that the daemon has ended; and do not wait for what a hub may never answer."""
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            await process.stdin.aclose()
        with anyio.move_on_after(END_S):
            await process.wait()
            return
        process.kill()
        await process.wait()
