"""`serve`: the daemon's methods over HTTP, on this machine only, for what cannot speak to a Unix socket."""

import os
import signal
import sys
from contextlib import suppress
from typing import Any

from sesamectl.errors import RefusedError, UsageError
from sesamectl.flags import Arguments
from sesamectl.locations import data_directory
from sesamectl.output import show
from sesamectl.web.server import LOOPBACK, Server
from sesamectl.web.token import read_token

PORT = 7473
MOST_PORT = 65535


def run(arguments: Arguments) -> None:
    """Answer until Ctrl-C or SIGTERM."""
    if not arguments.has("http"):
        raise UsageError(
            "say how: `sesamectl serve --http`; the daemon itself is started by `sesamectl start`", "serve"
        )
    port = int(arguments.values.get("port", PORT))
    if port > MOST_PORT:
        raise UsageError(f"there is no port {port}", "serve")
    path, token = read_token(data_directory(os.environ))
    try:
        server = Server(port, token, arguments)
    except OSError as error:
        raise RefusedError(f"cannot listen on {LOOPBACK}:{port}: {error.strerror}; choose another --port") from None
    signal.signal(signal.SIGTERM, _interrupt)
    with server, suppress(KeyboardInterrupt):
        where = {"url": f"http://{LOOPBACK}:{server.server_port}", "tokenFile": path}
        show(where, _lines, arguments)
        sys.stdout.flush()
        server.serve_forever()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _lines(where: dict[str, Any], *_: object) -> list[str]:
    return [
        f"Answering at {where['url']}; the token is in {where['tokenFile']}. Ctrl-C ends it.",
        f'  curl -H "Authorization: Bearer $(cat {where["tokenFile"]})" "{where["url"]}/api/sessions/search?query=WORDS&limit=3"',
    ]
