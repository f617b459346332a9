"""A sesamed whose writer hangs for ever once there is a file called `hang.jsonl`: for the watchdog to find."""

import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sesamed import cli
from sesamed.ingest import look as ingest

run = ingest.Ingest.run


def hanging(self, targets, *rest, **named):  # type: ignore[no-untyped-def]  # only passed on
    targets = list(targets)
    if any(target.path.endswith(b"hang.jsonl") for target in targets):
        threading.Event().wait()
    return run(self, targets, *rest, **named)


ingest.Ingest.run = hanging  # type: ignore[method-assign]  # there is no other way to make it hang
sys.exit(cli.main([]))
