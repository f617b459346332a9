"""A daemon whose backlog stands still once some of it is found, until a test says so: what comes meanwhile is in the middle of a load,
however fast or slow the machine is. Whoever is more urgent has one more file read of it."""

from pathlib import Path

from tests.support.daemon import Daemon

_PROGRAM = """
import os, sys, time
from pathlib import Path
from sesamed.ingest import look
go, really_look = Path(os.environ["SESAME_RUNTIME_DIR"], "go"), look._Run._look
def held(run, state):
    while run._ahead is not None and run._ingest.committed.files and not (go.exists() or run._stop()):
        time.sleep(0.01)
    really_look(run, state)
look._Run._look = held
from sesamed.cli import main
sys.exit(main())
"""
PROGRAM = ("-c", _PROGRAM)


def let_go(daemon: Daemon) -> None:
    """Have it read on."""
    Path(daemon.runtime_dir, "go").touch()
