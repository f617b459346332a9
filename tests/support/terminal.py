"""A program in a terminal, into which somebody types."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.client import PATIENCE_S

IN_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"


class Terminal:
    """What it shows is kept as it comes, with all that moves the cursor."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> None:
        self.shown = ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", IN_A_TERMINAL, *command], env=environ, cwd=cwd,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # with its end of the terminal, the program's goes
        self._process.communicate()

    def type(self, text: str) -> None:
        """Whatever is typed before the program reads it waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first place of what is shown that looks like this."""
        assert self._process.stdout is not None
        descriptor, deadline = self._process.stdout.fileno(), time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.shown)) is None:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(descriptor, 1 << 16) if ready else b""
            assert data, f"no {pattern} in {self.shown!r}"
            self.shown += data.decode(errors="replace")
        return found
