"""What the daemon costs when nothing happens, some time after it indexed a corpus.

    python -m bench.idle CORPUS [--settle 60] [--seconds 60]

CPU is user and system time of all threads, from /proc, over the whole span; the kernel counts it in ticks of 10 ms, so that one tick in a
minute is 0.017 %. Nothing is asked of the daemon in that time. Resident memory is measured before the span, `at first`, and at its end.
Memory that the index load left behind, and the interpreter did not give back, is in it: a daemon that was started over a finished index
has less, which is the second row.
"""

import time

from bench.instance import Instance, scratch
from bench.tables import Table, run_alone

HEADER = ("", "CPU, % of a core", "CPU ticks", "MB at first", "resident MB", "peak MB", "seconds", "threads")


def measure(corpus: str, settle: float, seconds: float) -> list[Table]:
    """Idle after a cold index, and after a second start."""
    with scratch() as place:
        rows = [_row(name, place, corpus, (settle, seconds)) for name in ("after a cold index", "after a second start")]
    return [Table("Idle", HEADER, rows, f"From {settle:.0f} s after everything was indexed.")]


def _row(name: str, place: str, corpus: str, spans: tuple[float, float]) -> tuple[str, ...]:
    settle_s, seconds = spans
    with Instance(place, corpus) as daemon:
        daemon.until_settled()
        time.sleep(settle_s)
        first = f"{daemon.resident_mb():.0f}"
        before, begun = daemon.cpu_s(), time.perf_counter()
        time.sleep(seconds)
        used_s, took_s = daemon.cpu_s() - before, time.perf_counter() - begun
        memory = (first, f"{daemon.resident_mb():.0f}", f"{daemon.peak_mb():.0f}")
        share = f"{used_s / took_s * 100:.2f}"
        return (name, share, f"{used_s * 100:.0f}", *memory, f"{took_s:.0f}", str(daemon.threads()))


if __name__ == "__main__":
    run_alone(measure, __doc__, settle=60.0, seconds=60.0)
