"""`python bench/profiled.py TREE FILE`: `sesamed` of a tree, with a record of what it calls; `bench.call_paths` reads it.

Each row of FILE, written when the daemon ends, is [monotonic ns, thread, module, function]. `sys.setprofile` sees every thread. What
is no function of `sesamed` is left out, and so are comprehensions; a coroutine that goes on is a call. Two rows are of another kind:
SENT, when something was written to a socket, and COMMITTED, when SQLite commits.
"""

import json
import os
import runpy
import socket
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

import apsw

SENT, COMMITTED = "(sent)", "(committed)"
NO_CALLS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"}
Row = tuple[int, int, str, str]


class Recorder:
    """Keeps the calls of functions below a directory."""

    def __init__(self, package: str) -> None:
        self.rows: list[Row] = []
        self._base = os.path.realpath(package) + os.sep
        self._names: dict[CodeType, tuple[str, str] | None] = {}

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """What the interpreter calls for each call."""
        if event == "call":
            code = frame.f_code
            if code not in self._names:
                self._names[code] = self._name(code)
            if (name := self._names[code]) is not None:
                self._keep(*name)
        elif event == "c_call" and argument.__name__ == "send" and isinstance(argument.__self__, socket.socket):
            self._keep(SENT, "")

    def commit(self) -> bool:
        """What SQLite calls before a commit; true would make it a rollback."""
        self._keep(COMMITTED, "")
        return False

    def _keep(self, module: str, function: str) -> None:
        self.rows.append((time.monotonic_ns(), threading.get_ident(), module, function))

    def _name(self, code: CodeType) -> tuple[str, str] | None:
        path = os.path.realpath(code.co_filename)
        if not path.startswith(self._base) or code.co_name in NO_CALLS:
            return None
        module = path.removeprefix(self._base).removesuffix(".py").removesuffix("/__init__")
        return module.replace(os.sep, "."), code.co_qualname


def run(tree: str, file: str) -> None:
    """Run the daemon, and write the record when it ends."""
    recorder = Recorder(os.path.join(tree, "sesamed"))
    sys.path.insert(0, tree)
    sys.argv = ["sesamed"]
    apsw.connection_hooks.append(lambda connection: connection.set_commit_hook(recorder.commit))
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    try:
        runpy.run_module("sesamed", run_name="__main__")
    finally:
        sys.setprofile(None)
        with open(file, "w", encoding="utf-8") as out:
            json.dump(recorder.rows, out)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
