"""What a bench was measured under: who else uses the cores, how busy they are, and how fast.

On a machine that others use, `nice` does not count between sessions: the kernel shares the cores out between scheduling groups first
(`/proc/self/autogroup`), and each session is one. So a run leaves for a session of its own and raises that group, which takes the right
to do so (root has it); no other group and no setting of the machine is touched.

What is left is said: the load before and after, how many cores others used meanwhile, and how long a fixed piece of work took before and
after, in this process alone. The least that this spin ever takes is a quiet machine of that kind.
"""

import multiprocessing
import os
import resource
import signal
import time
from types import FrameType

from bench.tables import machine, median

AUTOGROUP = "/proc/self/autogroup"
ENABLED = "/proc/sys/kernel/sched_autogroup_enabled"
RAISED = -19
SPIN_TURNS, SPINS = 2_500_000, 5
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Conditions:
    """Of one bench, from when this is made."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._spin_ms, self._load = spin_ms(), os.getloadavg()[0]
        self._begun, self._busy_s, self._own_s = time.perf_counter(), _busy_s(), _own_s()

    def describe(self, scale: str) -> str:
        """What stands with the figures. The README takes the size of the corpus from the last place but one."""
        others_s = (_busy_s() - self._busy_s) - (_own_s() - self._own_s)
        cores = max(0.0, others_s) / (time.perf_counter() - self._begun)
        load = f"load {self._load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
        spin = f"spin {self._spin_ms:.0f} and {spin_ms():.0f} ms"
        return f"{machine()}; {scale}; {load}, others on {cores:.1f} cores, {spin}, {self._group}"


def raise_group() -> str:
    """Leave for a session of its own, and have its group preferred to all others; or why that cannot be."""
    try:
        with open(ENABLED, encoding="ascii") as file:
            if file.read().strip() != "1":
                return "no scheduling groups"
        _leave_session()
        with open(AUTOGROUP, "w", encoding="ascii") as file:
            file.write(str(RAISED))
    except FileNotFoundError:
        return "no scheduling groups"
    except OSError as error:
        return f"scheduling group not raised ({error.strerror})"
    return f"scheduling group at {RAISED}"


def _leave_session() -> None:
    """Who leads a group of processes, as what a shell starts does, cannot leave: a child does, and this process waits for it."""
    if os.getsid(0) == os.getpid():
        return
    if os.getpgrp() == os.getpid():
        child = os.fork()
        if child:
            _wait_for(child)
    os.setsid()


def _wait_for(child: int) -> None:
    """End as the child does, and let it know of what was meant for it."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def spin_ms() -> float:
    """How long a fixed piece of work takes."""
    times = []
    for _ in range(SPINS):
        begun, total = time.perf_counter(), 0
        for number in range(SPIN_TURNS):
            total += number
        times.append((time.perf_counter() - begun) * 1000)
    return median(times)


def _busy_s() -> float:
    """What all cores have worked."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _waiting, *interrupts = map(int, file.readline().split()[1:9])
    return (user + nice + system + sum(interrupts)) / TICKS_A_SECOND


def _own_s() -> float:
    """What this process has worked, and those it has seen the end of."""
    multiprocessing.active_children()  # sees the end of those that nobody waited for
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
