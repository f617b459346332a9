"""`sesamectl serve --http`: the same answers as on the socket, for those who know the token and are on this machine."""

import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sesamectl.web.questions import REFUSED
from sesamectl.web.server import MOST_AT_ONCE, MOST_BYTES
from tests.support.daemon import eventually
from tests.support.machine import Machine

JSON = {"Content-Type": "application/json"}
HELD = "xK9#vesper-41"


Asked = tuple[str, str, bytes | None]


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def message(self) -> str:
        """Why there is no result."""
        return str(self.body["error"]["message"])


class Served:
    """A machine on which `serve` runs."""

    def __init__(self, machine: Machine, *flags: str) -> None:
        self.machine = machine
        self.process = machine.start("serve", "--http", "--port", "0", "--json", *flags)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        where = json.loads(line)
        self.token_file = Path(where["tokenFile"])
        self.token = self.token_file.read_text().strip()
        self.port = int(where["url"].rpartition(":")[2])

    def ask(self, method: str, path: str, body: bytes | None = None, *, headers: Mapping[str, str]) -> Answer:
        """One request; with the token unless headers say otherwise."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            given = {"Authorization": f"Bearer {self.token}", **headers}
            connection.request(method, path, body, {name: value for name, value in given.items() if value})
            answer = connection.getresponse()
            return Answer(answer.status, json.loads(answer.read() or b"null"), dict(answer.getheaders()))
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, method: str, params: Any) -> Answer:
        return self.ask("POST", f"/api/{method}", json.dumps(params).encode(), headers=JSON)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One for all that change nothing."""
    with made_machine() as machine:
        made = Served(machine)
        yield made
        made.end()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with made_machine() as made:
        yield made


@contextmanager
def made_machine() -> Iterator[Machine]:
    made = Machine()
    made.write("one", "why the quince")
    made.write("two", f"a medlar; password: {HELD}")
    try:
        yield made
    finally:
        made.remove()


def test_the_two_addresses(served: Served) -> None:
    """What `search` and `list` take, by the names of their flags or those on the wire; the daemon is started by the first question."""
    found = served.get("/api/sessions/search?query=quince&limit=5")
    assert (found.status, [hit["sessionId"] for hit in found.body["results"]]) == (200, ["one"])
    assert served.get("/api/sessions/search?q=quince&limit=5").body["results"] == found.body["results"]
    listed = served.get("/api/sessions?source=pi&source=codex&empty=false&before=1d").body
    assert sorted(session["sessionId"] for session in listed["sessions"]) == ["one", "two"]
    assert served.get("/api/sessions?limit=1").body["total"] == 2
    for address in ("/api/sessions?hub=true", "/api/sessions?scope=both&person=", "/api/sessions/search?q=quince&hub"):
        assert "no hub is configured" in served.get(address).body["warnings"][0]
    assert found.headers["Cache-Control"] == "no-store"


def test_every_method_is_there(served: Served) -> None:
    """But those that end the daemon, or other questions."""
    for method, params in {
        "search": {"query": "quince"},
        "list_messages": {"sessionId": "one"},
        "get_session_meta": {"sessionId": "one"},
        "set_session_meta": {"sessionId": "one", "title": "a tree"},
        "index": {},
        "status": {},
    }.items():
        assert served.post(method, params).status == 200
    assert served.post("get_session_meta", {"sessionId": "one"}).body["name"] == "a tree"
    assert set(REFUSED) < set(served.post("hello", {}).body["methods"])
    for method in REFUSED:
        assert served.post(method, {}).status == 403
    assert served.post("hello", {}).status == 200  # it was not stopped


def test_secrets_stay_masked(served: Served) -> None:
    shown = served.post("list_messages", {"sessionId": "two"})
    assert HELD not in json.dumps(shown.body)
    refused = served.post("list_messages", {"sessionId": "two", "reveal": True})
    assert (refused.status, "terminal" in refused.message) == (403, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "Bearer \xe9"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "localhost:{port}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://localhost:{port}"}, 403),
        ({"Origin": "http://localhost:{port}"}, 200),
        ({"Authorization": "bearer {token}"}, 200),
    ],
)
def test_who_is_answered(served: Served, headers: dict[str, str], status: int) -> None:
    """Nobody without the token; no page that had its name point here, and none of another origin, with or without it."""
    given = {name: value.format(token=served.token, port=served.port) for name, value in headers.items()}
    answer = served.get("/api/sessions", **given)
    assert answer.status == status
    assert ("sessions" in answer.body) == (status == 200)
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    ("asked", "headers", "status", "says"),
    [
        (("GET", "/api/sessions?lmit=3", None), {}, 400, "limit"),
        (("GET", "/api/sessions?limit=many", None), {}, 400, "limit"),
        (("GET", "/api/sessions?cwd=src", None), {}, 400, "absolute"),
        (("GET", "/api/sessions?role=nobody", None), {}, 400, "user, assistant"),
        (("GET", "/api/sessions?tools=maybe", None), {}, 400, "true or false"),
        (("GET", "/api/sessions?after=soon", None), {}, 400, "date"),
        (("GET", "/api/sessions?" + "limit=1&" * 201, None), {}, 400, "200"),
        (("GET", "/api/sessions?scope=everywhere", None), {}, 400, "here, hub, both"),
        (("GET", "/api/sessions?scope=hub", None), {}, 503, "no hub is configured"),
        (("POST", "/api/list_messages", b'{"sessionId": "x", "scope": "hub"}'), JSON, 503, "no hub is configured"),
        (("GET", "/", None), {}, 404, "/api/sessions"),
        (("POST", "/api/", b"{}"), JSON, 404, "METHOD"),
        (("POST", "/api/serch", b"{}"), JSON, 404, "serch"),
        (("POST", "/api/list_messages", b'{"sessionId": "nobody"}'), JSON, 404, "nobody"),
        (("POST", "/api/search", b'{"limit": -1}'), JSON, 400, "limit"),
        (("POST", "/api/search", b"query=quince"), JSON, 400, "JSON"),
        (("POST", "/api/search", b"[]"), JSON, 400, "object"),
        (("POST", "/api/search", b"[" * 100_000), JSON, 400, "JSON"),
        (("POST", "/api/search", b"\xff"), JSON, 400, "JSON"),
        (("POST", "/api/search", b"{}"), {"Content-Type": "text/plain"}, 415, "application/json"),
        (("POST", "/api/search", None), {"Content-Length": str(MOST_BYTES + 1), **JSON}, 413, "bytes"),
        (("POST", "/api/search", None), {"Content-Length": "-1", **JSON}, 411, "Content-Length"),
        (("PUT", "/api/search", b"{}"), JSON, 405, "method"),
        (("DELETE", "/api/sessions", None), {}, 405, "method"),
    ],
)
def test_what_is_wrong_is_said(served: Served, asked: Asked, headers: dict[str, str], status: int, says: str) -> None:
    answer = served.ask(*asked, headers=headers)
    assert (answer.status, says in answer.message) == (status, True), answer


def test_odd_bytes(served: Served) -> None:
    """What is no HTTP gets an answer or a closed connection, and others are served."""
    for data in (
        b"\0" * 10,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"",
    ):
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
    assert served.get("/api/sessions").status == 200


def test_an_address_that_is_none_is_answered(served: Served) -> None:
    head = f"Host: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {served.token}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        client.sendall(f"GET http://[/api/sessions HTTP/1.1\r\n{head}".encode())
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 404 ")


def test_too_many_at_once(served: Served) -> None:
    """Who does nothing holds a place, and the daemon's own clients never wait for it."""
    idle = [HTTPConnection("127.0.0.1", served.port, timeout=30) for _ in range(MOST_AT_ONCE)]
    try:
        for client in idle:
            client.request("GET", "/api/sessions", headers={"Authorization": f"Bearer {served.token}"})
            assert json.loads(client.getresponse().read())["total"] == 2
        assert _status(served) == 503
        assert served.machine.run("search", "quince").returncode == 0
    finally:
        for client in idle:
            client.close()
    eventually(lambda: _status(served) == 200)


def test_whoever_has_not_shown_the_token_holds_no_place(served: Served) -> None:
    """Anybody can connect: they make room, the oldest first, and not for each other for long."""
    strangers = [socket.create_connection(("127.0.0.1", served.port), timeout=30) for _ in range(MOST_AT_ONCE)]
    try:
        for stranger in strangers:
            stranger.sendall(b"GET /api/sessions HTTP/1.1\r\n")
        for _ in range(3):
            assert served.get("/api/sessions").status == 200
        assert strangers[0].recv(1) == b""
        assert strangers[-1].recv(1) == b""  # after a while
    finally:
        for stranger in strangers:
            stranger.close()


def _status(served: Served) -> int:
    try:
        return served.get("/api/sessions").status
    except (ConnectionError, OSError):
        return 0


def test_without_a_daemon(machine: Machine) -> None:
    served = Served(machine, "--no-start")
    answer = served.get("/api/sessions")
    assert (answer.status, "sesamectl start" in answer.message) == (503, True)
    machine.run("start")
    assert served.get("/api/sessions").status == 200
    assert served.end(signal.SIGINT) == 0


def test_the_token_is_private_and_stays(machine: Machine) -> None:
    served = Served(machine)
    assert served.token_file.stat().st_mode & 0o777 == 0o600
    token = served.token
    assert served.end() == 0
    again = Served(served.machine)
    assert again.token == token
    again.end()
    file = served.token_file
    spoilers: list[Callable[[], object]] = [lambda: file.chmod(0o644), lambda: file.write_text("short")]
    for spoil in spoilers:
        spoil()
        done = served.machine.run("serve", "--http", "--port", "0")
        assert (done.returncode, "delete it" in done.stderr, done.stdout) == (4, True, "")
        file.chmod(0o600)


def test_it_listens_on_loopback_only(served: Served) -> None:
    for *_, address in socket.getaddrinfo(socket.gethostname(), served.port, socket.AF_INET):
        if not str(address[0]).startswith("127."):
            with socket.socket() as client:
                assert client.connect_ex(address) == errno.ECONNREFUSED
    taken = served.machine.run("serve", "--http", "--port", str(served.port))
    assert (taken.returncode, "choose another --port" in taken.stderr) == (4, True)


@pytest.mark.parametrize("words", [(), ("--http", "--port", "65536"), ("--http", "--port", "-1")])
def test_wrong_usage(machine: Machine, words: tuple[str, ...]) -> None:
    assert machine.run("serve", *words).returncode == 2
    assert not (machine.data / "http.token").exists()


def test_nothing_asked_is_printed(machine: Machine) -> None:
    served = Served(machine)
    served.get("/api/sessions/search?query=zanzibarcode")
    served.get("/api/nowhere?query=zanzibarcode")
    os.kill(served.process.pid, signal.SIGTERM)
    out, err = served.process.communicate(timeout=30)
    assert "zanzibarcode" not in out + err + served.machine.log()
