"""How many answers clients get that ask without a pause, and what that does to one that asks now and then.

    python -m bench.throughput CORPUS [--seconds 10]

One, two and ten clients, each a process with a connection of its own, which ask the next question as soon as they have an answer: the six
kinds of `bench.query` by turns, each client in another order. Two cores are shared by the daemon and the clients, who only wait and decode.
Then a good client, as in `bench.crowd`, alone and beside ten of these. `cores` is what the daemon used, and the second process that answers
while several wait. All have asked each question once before, so that everything is warm but for that process; `again` that is warm, too.
"""

import multiprocessing
import time
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Barrier
from random import Random
from typing import NamedTuple

import apsw

from bench import crowd
from bench.instance import Instance, indexed
from bench.query import draw_questions, pool
from bench.tables import Table, ms, percentile, run_alone
from sesamectl.client import Client

SPAWN = multiprocessing.get_context("spawn")
CLIENTS = (1, 2, 10)
QUESTIONS = 30  # of each kind
PATIENCE_S = 60.0
HEADER = ("", "answers", "answers/s", "of one client's", "p50", "p90", "p99", "max", "p99 of the first row's", "cores")


class Load(NamedTuple):
    """What some clients got."""

    times: list[float]
    rate: float
    cores: float


def measure(corpus: str, seconds: float) -> list[Table]:
    """All numbers of clients, and the good one."""
    with indexed(corpus) as daemon:
        with apsw.Connection(daemon.database, flags=apsw.SQLITE_OPEN_READONLY) as connection:
            random = Random(1)
            words = pool(connection, random)
            questions = draw_questions(words, random, QUESTIONS)
        connection.close()
        for question in questions:
            daemon.call("search", query=question)
        loads = {
            f"{clients} client{'s' * (clients > 1)}": _load(daemon, clients, questions, seconds) for clients in CLIENTS
        }
        loads[f"{CLIENTS[-1]} clients, again"] = _load(daemon, CLIENTS[-1], questions, seconds)
        alone, beside = (_good(daemon, clients, questions, words.rare, seconds) for clients in (0, CLIENTS[-1]))
    one = next(iter(loads.values()))
    rows = [_row(name, load, one) for name, load in loads.items()]
    rows.append(_row("a good client, alone", alone, alone))
    rows.append(_row(f"**a good client, beside {CLIENTS[-1]}**", beside, alone))
    return [Table("Questions without a pause, ms", HEADER, rows, f"{seconds:g} s each.")]


def _load(daemon: Instance, clients: int, questions: list[str], seconds: float) -> Load:
    receivers, barrier = _start(daemon.socket_path, clients, questions, seconds)
    barrier.wait(PATIENCE_S)
    before_s, begun = daemon.cpu_s(), time.perf_counter()
    times = [one for receiver in receivers for one in receiver.recv()]
    took_s = time.perf_counter() - begun
    return Load(times, len(times) / took_s, (daemon.cpu_s() - before_s) / took_s)


def _good(daemon: Instance, clients: int, questions: list[str], words: list[str], seconds: float) -> Load:
    """The good client's times, while so many others ask: they begin before and end after it."""
    others, barrier = _start(daemon.socket_path, clients, questions, seconds + 3)
    barrier.wait(PATIENCE_S)
    before_s, begun = daemon.cpu_s(), time.perf_counter()
    times = crowd.start(crowd.ask_modestly, daemon.socket_path, words, seconds).recv()
    took_s = time.perf_counter() - begun
    cores = (daemon.cpu_s() - before_s) / took_s
    for other in others:
        other.recv()
    return Load(times, len(times) / took_s, cores)


def _start(path: str, clients: int, questions: list[str], seconds: float) -> tuple[list[Pipe], Barrier]:
    """Clients that begin when all of them, and we, are there."""
    barrier, receivers = SPAWN.Barrier(clients + 1), list[Pipe]()
    for number in range(clients):
        receivers.append(crowd.start(_ask, path, Random(number).sample(questions, len(questions)), seconds, barrier))
    return receivers, barrier


def _ask(sender: Pipe, path: str, questions: list[str], seconds: float, barrier: Barrier) -> None:
    times, number = list[float](), 0
    with Client(path, PATIENCE_S) as client:
        client.call("hello")
        barrier.wait(PATIENCE_S)
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            client.call("search", query=questions[number % len(questions)])
            times.append((time.perf_counter() - begun) * 1000)
            number += 1
    sender.send(times)


def _row(name: str, load: Load, first: Load) -> tuple[str, ...]:
    shares = [ms(percentile(load.times, share)) for share in (50, 90, 99, 100)]
    slower = percentile(load.times, 99) / percentile(first.times, 99)
    rate = (f"{load.rate:.1f}", f"{load.rate / first.rate:.2f}")
    return (name, str(len(load.times)), *rate, *shares, f"{slower:.1f}", f"{load.cores:.2f}")


if __name__ == "__main__":
    run_alone(measure, __doc__, seconds=10.0)
