"""The longest that an append waits, and the most that is written meanwhile, after everything that leaves much to merge.

    python -m bench.stalls CORPUS [--samples 2000]

`append_message` again and again with short pauses, and a longer one after every hundredth, so that upkeep gets its turns: while the load is
merged, after that, after `index --full`, and while a reader stays that began before. Pages are counted by the WAL's index, from one answer
to the next, so they include upkeep that came in between; they say the same on a busy machine. FTS5 left alone merges the whole index in one
commit, some hundred to 1,300 appends after a load.
"""

import os
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random

import apsw

from bench.instance import Instance, scratch
from bench.tables import Table, ms, percentile, run_alone

PAUSE_S = 0.003
REST_S, REST_EVERY = 0.5, 100
MX_FRAME = 16  # where the WAL's index says how many frames there are: https://sqlite.org/walformat.html
HEADER = ("", "samples", "p50", "p99", "max", "most pages", "all pages", "longest WAL, MB", "file, MB")
Row = tuple[str, ...]


class Appender:
    """Appends to one session, and counts."""

    def __init__(self, daemon: Instance) -> None:
        self._daemon = daemon
        self._random = Random(1)
        self._session = daemon.call("new_session", title="stalls")["sessionId"]
        self._said = 0
        self.look_at(daemon.database)

    def run(self, name: str, samples: int) -> Row:
        """So many appends, as a row of the table."""
        times, pages, longest = list[float](), list[int](), 0
        before = self._wal_pages()
        for number in range(1, samples + 1):
            time.sleep(REST_S if number % REST_EVERY == 0 else self._random.random() * PAUSE_S)
            times.append(self.append())
            now = self._wal_pages()
            pages.append(now - before if now >= before else now)
            before, longest = now, max(longest, os.path.getsize(self._daemon.database + "-wal"))
        shares = [ms(percentile(times, share)) for share in (50, 99)]
        size = os.path.getsize(self._daemon.database)
        counts = str(max(pages)), str(sum(pages)), f"{longest / 1e6:.0f}", f"{size / 1e6:.0f}"
        return (name, str(samples), *shares, ms(max(times)), *counts)

    def append(self) -> float:
        """One append; the milliseconds until it was answered."""
        self._said += 1
        text = " ".join(f"{self._random.getrandbits(14):x}" for _ in range(60)) + f" stalls{self._said}"
        begun = time.perf_counter()
        self._daemon.call("append_message", sessionId=self._session, role="assistant", text=text)
        return (time.perf_counter() - begun) * 1000

    def look_at(self, path: str) -> None:
        """Count by this index's WAL from now on. Its file stays open: to close it would drop the locks of all who read in this process."""
        self._shm = os.open(path + "-shm", os.O_RDONLY)

    def _wal_pages(self) -> int:
        return int(struct.unpack("=I", os.pread(self._shm, 4, MX_FRAME))[0])


@contextmanager
def _reader(path: str) -> Iterator[None]:
    """Somebody who goes on reading the index as it is now."""
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM metadata").fetchall()
        yield


def measure(corpus: str, samples: int) -> list[Table]:
    """Appends after a load and after a rebuild."""
    with scratch() as place, Instance(place, corpus) as daemon:
        daemon.until_settled()
        appender = Appender(daemon)
        rows = [appender.run("while the load is merged", max(1, samples // 10))]
        daemon.until_folded()
        rows.append(appender.run("**after that**", samples))
        daemon.call("index", full=True)
        appender.look_at(daemon.database)
        rows.append(appender.run("**after `index --full`**", samples))
        appender.append()  # or the reader would not need the WAL
        with _reader(daemon.database):
            rows.append(appender.run("while a reader stays", max(1, samples // 4)))
    return [Table("append_message to its answer, ms, and what was written meanwhile", HEADER, rows)]


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=2000)
