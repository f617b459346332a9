"""Who answers at a socket, and in which version: asked only after something went wrong, so that a search pays nothing for it."""

from typing import Any

from sesamectl import __version__
from sesamectl.client import PROTOCOL, Client
from sesamectl.errors import ClientError, NotSesameError, RpcError, VersionError

HELLO_S = 5.0


def try_hello(path: str) -> dict[str, Any] | None:
    """The daemon's `hello`; None when nothing answers there, or something other than sesamed."""
    try:
        with Client(path, HELLO_S) as client:
            return client.call("hello", client="sesamectl")
    except (ClientError, RpcError):
        return None


def answering_pid(path: str) -> int | None:
    """The pid of the daemon that answers; None when none does, 0 when it does not give one."""
    hello = try_hello(path)
    if hello is None:
        return None
    pid = hello.get("pid")
    return pid if isinstance(pid, int) else 0


def explain(path: str, refused: str = "") -> ClientError | RpcError | None:
    """What is wrong with the program that answers at this socket; None when that is not the reason."""
    try:
        with Client(path, HELLO_S) as client:
            hello = client.call("hello", client="sesamectl", protocol=PROTOCOL)
    except RpcError:
        return NotSesameError(f"the program at {path} is not sesamed (it does not know `hello`); set SESAME_SOCKET")
    except ClientError as error:
        return error
    least, most, version = hello.get("minProtocol"), hello.get("protocol"), hello.get("version")
    if not (isinstance(least, int) and isinstance(most, int)):
        return NotSesameError(f"the program at {path} is not sesamed (it names no protocol); set SESAME_SOCKET")
    todo = "`sesamectl restart` starts the sesamed that is installed with it"
    if not least <= PROTOCOL <= most:
        todo = "update sesamectl" if least > PROTOCOL else todo
        spoken = f"protocol {most}" if least == most else f"protocols {least} to {most}"
        return VersionError(
            f"sesamed {version} at {path} speaks {spoken}, this sesamectl {__version__} speaks {PROTOCOL}; {todo}"
        )
    if refused and version != __version__:
        return RpcError(0, f"sesamed {version} refused a request of sesamectl {__version__} ({refused}); {todo}")
    return None
