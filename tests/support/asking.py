"""Everybody who can ask: a shell, pi, a client of MCP, and one of HTTP. Each asks the same daemon once, and gives what it is answered."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support import npm
from tests.support.chat import Model, Use
from tests.support.client import PATIENCE_S
from tests.support.daemon import Daemon
from tests.support.desk import PACKAGE, QUIET, RUN_S, USUAL

SESAMECTL = (sys.executable, "-m", "sesamectl")
Asks = Callable[[Daemon, str], str]


def ask_in_shell(daemon: Daemon, query: str) -> str:
    """As a person does."""
    command = [*SESAMECTL, "search", "--no-start", *query.split()]
    return subprocess.run(
        command, env=environ(daemon), check=True, capture_output=True, text=True, timeout=PATIENCE_S
    ).stdout


def ask_in_pi(daemon: Daemon, query: str) -> str:
    """The newest pi with our package; what its model is given."""
    pi = npm.pi(npm.NEWEST)
    with Model() as model:
        agent = daemon.home / ".pi/agent"
        agent.mkdir(parents=True, exist_ok=True)
        (agent / "models.json").write_text(json.dumps(model.config))
        model.says(Use("search_sessions", {"query": query}))
        command = [*pi.command, *USUAL, "-e", str(PACKAGE), "--no-session", "-p", "Look it up."]
        subprocess.run(command, env={**environ(daemon), **QUIET}, cwd=daemon.directory, check=True, capture_output=True,
                       stdin=subprocess.DEVNULL, timeout=RUN_S)  # fmt: skip
        (told,) = model.tool_results()
    return told


def ask_by_mcp(daemon: Daemon, query: str) -> str:
    """The official SDK's client."""

    async def ask() -> str:
        command = StdioServerParameters(
            command=SESAMECTL[0],
            args=[*SESAMECTL[1:], "mcp", "--no-start"],
            env=environ(daemon),
            cwd=str(daemon.directory),
        )
        async with Client(stdio_client(command)) as client:
            result = await client.call_tool("search_sessions", {"query": query})
        assert not result.is_error
        return str(result.structured_content["text"])

    return anyio.run(ask)


def ask_by_http(daemon: Daemon, query: str) -> str:
    """A program that can do nothing else."""
    command = [*SESAMECTL, "serve", "--http", "--port", "0", "--json", "--no-start"]
    with subprocess.Popen(command, env=environ(daemon), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            where = json.loads(process.stdout.readline())
            connection = HTTPConnection(where["url"].removeprefix("http://"), timeout=PATIENCE_S)
            token = Path(where["tokenFile"]).read_text().strip()
            connection.request(
                "GET", f"/api/sessions/search?q={quote(query)}", headers={"Authorization": f"Bearer {token}"}
            )
            answer = connection.getresponse()
            assert answer.status == 200
            said = answer.read().decode()
            connection.close()
        finally:
            process.terminate()
    return said


WAYS: Mapping[str, Asks] = {"shell": ask_in_shell, "pi": ask_in_pi, "mcp": ask_by_mcp, "http": ask_by_http}


def environ(daemon: Daemon) -> dict[str, str]:
    """Of whoever asks."""
    given = {name: value for name, value in daemon.environ().items() if name != "NOTIFY_SOCKET"}
    return {**given, "PATH": os.pathsep.join((os.path.dirname(sys.executable), given["PATH"]))}
