"""Clients, files and surroundings that nobody means well with: each ends in one line and the right code."""

import os
import sys
from collections.abc import Iterator

import pytest

from sesamed.methods.filters import MAX_VALUES
from tests.support.daemon import CONFIGURATION, Daemon

HUGE = 10**400


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    """One daemon for all bad clients."""
    with Daemon() as daemon:
        yield daemon.fill()


@pytest.mark.fault(31)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sync", {"timeoutMs": HUGE}),
        ("search", {"query": "quince", "timeoutMs": HUGE}),
        ("search", {"query": "quince", "limit": HUGE}),
        ("search", {"query": "quince", "offset": HUGE}),
        ("search_sessions", {"query": "quince", "limit": HUGE, "timeoutMs": HUGE}),
        ("list_sessions", {"limit": HUGE, "offset": HUGE}),
        ("list_sessions", {"since": HUGE}),
        ("list_messages", {"sessionId": "session-0", "offset": HUGE, "limit": HUGE}),
        ("list_bad_lines", {"limit": HUGE, "offset": HUGE}),
    ],
)
def test_huge_numbers(shared: Daemon, method: str, params: dict[str, object]) -> None:
    """A number of 400 digits is clamped or refused; it is never an internal error."""
    with shared.connect() as client:
        client.send(method, **params)
        answer = client.line()
    assert "result" in answer or answer["error"]["code"] in {-32602, 7}, answer  # 7: no revision of this index


@pytest.mark.parametrize("name", ["source", "role", "tool", "toolFamily", "exclude"])
def test_filters_with_many_values(shared: Daemon, name: str) -> None:
    """More values than anybody means are refused, with the bound."""
    for method, query in (("search", {"query": "quince"}), ("list_sessions", {})):
        refusal = shared.refuses(method, **query, **{name: ["x"] * 50_000})
        assert (refusal.code, refusal.message) == (-32602, f"{name}: at most {MAX_VALUES} values, not 50000")


def test_many_empty_lines(shared: Daemon) -> None:
    """Nobody sends thousands of empty lines in a row."""
    with shared.connect() as client:
        client.raw(b"\n" * 20_000)
        assert "empty lines" in client.line()["error"]["message"]
    assert shared.found("quince")


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_a_configuration_that_is_no_file(kind: str) -> None:
    """Nothing waits for a FIFO's other end."""
    with Daemon() as daemon:
        daemon.stop()
        daemon.config_file.unlink()
        os.mkfifo(daemon.config_file) if kind == "fifo" else daemon.config_file.mkdir()
        code, said = daemon.refuses_to_start()
        assert (code, said.count("\n")) == (CONFIGURATION, 1)
        assert f"cannot read {daemon.config_file}" in said


def test_closed_descriptors() -> None:
    """A daemon without standard input, output and error works, and writes nothing into its index by mistake."""
    with Daemon(
        through=[sys.executable, "-c", "import os, sys; os.closerange(0, 3); os.execv(sys.argv[1], sys.argv[1:])"]
    ) as daemon:
        assert len(daemon.fill().found("quince")) == 3
        daemon.check_index()


def test_a_link_beside_the_index() -> None:
    """What must outlive the index is never written through a link."""
    with Daemon() as daemon:
        daemon.fill()
        elsewhere = daemon.directory / "elsewhere"
        elsewhere.touch()
        (daemon.data_dir / "forgotten.jsonl").symlink_to(elsewhere)
        refusal = daemon.refuses("forget", sessionId="session-1")
        assert refusal.code == 6
        assert "nothing was changed" in refusal.message
        assert elsewhere.read_bytes() == b""
        assert len(daemon.found("quince")) == 3
