"""What the daemon costs when nothing happens, some time after it indexed a corpus.

    python -m bench.idle CORPUS [--settle 60] [--seconds 60]

CPU is user and system time of all threads, from /proc, over the whole span; the kernel counts it in ticks of 10 ms, so that one tick
in a minute is 0.017 %. Nothing is asked of the daemon in that time. Resident memory is measured at the span's end. Memory that the
index load left behind, and the interpreter did not give back, is in it: a daemon that was started over a finished index has less,
which is the second row.
"""

import argparse
import time

from bench.instance import Instance, scratch
from bench.tables import Table, show

HEADER = ("", "CPU, % of a core", "CPU ticks", "resident MB", "peak MB", "seconds", "threads")


def measure(corpus: str, settle_s: float, seconds: float) -> list[Table]:
    """Idle after a cold index, and after a second start."""
    with scratch() as place:
        rows = [
            _row(name, place, corpus, (settle_s, seconds)) for name in ("after a cold index", "after a second start")
        ]
    return [Table("Idle", HEADER, rows, f"Measured {settle_s:.0f} s after everything was indexed.")]


def _row(name: str, place: str, corpus: str, spans: tuple[float, float]) -> tuple[str, ...]:
    settle_s, seconds = spans
    with Instance(place, corpus) as daemon:
        daemon.until_settled()
        time.sleep(settle_s)
        before, begun = daemon.cpu_s(), time.perf_counter()
        time.sleep(seconds)
        used_s, took_s = daemon.cpu_s() - before, time.perf_counter() - begun
        memory = (f"{daemon.resident_mb():.0f}", f"{daemon.peak_mb():.0f}")
        share = f"{used_s / took_s * 100:.2f}"
        return (name, share, f"{used_s * 100:.0f}", *memory, f"{took_s:.0f}", str(daemon.threads()))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds to wait after indexing")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds to measure")
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    show(measure(flags.corpus, flags.settle, flags.seconds), as_json=flags.json)


if __name__ == "__main__":
    main()
