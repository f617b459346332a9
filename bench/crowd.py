"""A good client beside a crowd that asks dear questions.

    python -m bench.crowd CORPUS [--clients 30] [--flight 8] [--seconds 20] [--questions 'a*']

The good client is a process of its own, which asks for a rare word and for the newest sessions by turns, one question at a time with a
short pause. The crowd is one process with a connection for each client and `flight` questions in flight on each, of `questions`
(several with `|` between them); each answer is followed by the next question. First the good client is alone, then the crowd is, then
both are there. Memory is what is resident before, at the end of the crowd, and a minute later.
"""

import asyncio
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from random import Random
from typing import Any

import apsw

from bench.instance import indexed
from bench.query import pool
from bench.tables import Table, ms, percentile, run_alone
from sesamectl.client import Client
from sesamectl.errors import RpcError

PAUSE_S = 0.01
REST_S = 65.0
MAX_LINE = 8 << 20
HEADER = ("", "n", "p50", "p90", "p99", "max", "crowd's answers/s", "refused", "cores")


def measure(corpus: str, clients: int, flight: int, seconds: float, questions: str) -> list[Table]:
    """The good client's times, what the crowd gets, and memory."""
    with indexed(corpus) as daemon:
        words = _rare_words(daemon.database)
        memory = [daemon.resident_mb()]
        crowd = (daemon.socket_path, clients, flight, questions.split("|"), seconds)
        rows = []
        for name, with_good, with_crowd in (("alone", True, False), ("crowd", False, True), ("both", True, True)):
            before_s, begun = daemon.cpu_s(), time.perf_counter()
            receivers = []
            if with_crowd:
                receivers.append(start(_crowd, *crowd))
            if with_good:
                receivers.append(start(ask_modestly, daemon.socket_path, words, seconds))
            results = [receiver.recv() for receiver in receivers]
            cores = (daemon.cpu_s() - before_s) / (time.perf_counter() - begun)
            rows.append(
                _row(name, results[-1] if with_good else [], results[0] if with_crowd else Counter(), seconds, cores)
            )
            memory.append(daemon.resident_mb())
        time.sleep(REST_S)
        memory.append(daemon.resident_mb())
        names = ("before", "after the good client", "after the crowd", "after both", f"{REST_S:.0f} s later", "peak")
        figures = [(name, f"{mb:.0f}") for name, mb in zip(names, [*memory, daemon.peak_mb()], strict=True)]
    note = f"{clients} clients with {flight} questions in flight, of {questions}; {seconds:.0f} s each."
    return [
        Table("A good client in a crowd, ms", HEADER, rows, note),
        Table("Resident memory, MB", ("", "MB"), figures),
    ]


def _rare_words(database: str) -> list[str]:
    connection = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return pool(connection, Random(1)).rare
    finally:
        connection.close()


def start(work: Callable[..., None], *arguments: Any) -> Pipe:
    """Work in a process of its own; what it sends arrives at the other end."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    multiprocessing.get_context("spawn").Process(target=work, args=(sender, *arguments), daemon=True).start()
    sender.close()
    return receiver


def ask_modestly(sender: Pipe, path: str, words: list[str], seconds: float) -> None:
    """One question at a time, with pauses."""
    times, random = list[float](), Random(2)
    with Client(path, 60.0) as client:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for method, params in (("search", {"query": random.choice(words)}), ("list_sessions", {"limit": 20})):
                begun = time.perf_counter()
                with suppress(RpcError):  # a deadline takes its time, too
                    client.call(method, **params)
                times.append((time.perf_counter() - begun) * 1000)
                time.sleep(PAUSE_S)
    sender.send(times)


def _crowd(sender: Pipe, path: str, clients: int, flight: int, questions: list[str], seconds: float) -> None:
    """Many at once, without a pause."""
    sender.send(asyncio.run(_ask_all(path, clients, flight, questions, seconds)))


async def _ask_all(path: str, clients: int, flight: int, questions: list[str], seconds: float) -> Counter[int]:
    codes: Counter[int] = Counter()
    async with asyncio.timeout(seconds + 60):
        tasks = [
            asyncio.create_task(_ask(path, flight, questions[number % len(questions)], codes))
            for number in range(clients)
        ]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return codes


async def _ask(path: str, flight: int, question: str, codes: Counter[int]) -> None:
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE)
    number = 0
    try:
        for _ in range(flight):
            number += 1
            writer.write(_line(number, question))
        while True:
            answer = json.loads(await reader.readline())
            codes[answer.get("error", {}).get("code", 0)] += 1
            number += 1
            writer.write(_line(number, question))
    finally:
        writer.close()


def _line(number: int, question: str) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "search", "params": {"query": question}}).encode() + b"\n"
    )


def _row(name: str, times: list[float], codes: Counter[int], seconds: float, cores: float) -> tuple[str, ...]:
    shares = [ms(percentile(times, share)) for share in (50, 90, 99, 100)] if times else ["-"] * 4
    answered = f"{codes[0] / seconds:.1f}" if codes else "-"
    refused = str(sum(codes.values()) - codes[0]) if codes else "-"
    return (name, str(len(times)), *shares, answered, refused, f"{cores:.2f}")


if __name__ == "__main__":
    run_alone(measure, __doc__, clients=30, flight=8, seconds=20.0, questions="a*")
