"""Who answers at a socket, and in which version: asked only after something went wrong, so that a search pays nothing for it."""

from typing import Any

from sesamectl import __version__
from sesamectl.client import PROTOCOL, Client
from sesamectl.errors import ClientError, NotSesameError, RpcError, VersionError

HELLO_S = 5.0
RESTART = "`sesamectl restart` starts the sesamed that is installed with it"


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
    problem, version = _examine(path)
    if problem is None and refused and version != __version__:
        return RpcError(0, f"sesamed {version} refused a request of sesamectl {__version__} ({refused}); {RESTART}")
    return problem


def explain_misread(path: str | None, error: Exception, todo: str) -> ClientError | RpcError:
    """Why reading an answer came to this error."""
    problem, version = _examine(path)
    if isinstance(problem, (NotSesameError, VersionError)):
        return problem
    why = f"{type(error).__name__}: {error}"
    if problem is None and version != __version__:
        return RpcError(0, f"sesamectl {__version__} cannot read an answer of sesamed {version} ({why}); {RESTART}")
    return RpcError(0, f"cannot read this answer ({why}); {todo}")


def _examine(path: str | None) -> tuple[ClientError | None, Any]:
    """What is wrong with the program that answers at this socket, if its `hello` says so; and its version."""
    try:
        client = Client(path, HELLO_S)
        path = client.path
        with client:
            hello = client.call("hello", client="sesamectl", protocol=PROTOCOL)
    except RpcError:
        return NotSesameError(
            f"the program at {path} is not sesamed (it does not know `hello`); set SESAME_SOCKET"
        ), None
    except ClientError as error:
        return error, None
    least, most, version = hello.get("minProtocol"), hello.get("protocol"), hello.get("version")
    if not (isinstance(least, int) and isinstance(most, int)):
        return NotSesameError(f"the program at {path} is not sesamed (it names no protocol); set SESAME_SOCKET"), None
    if least <= PROTOCOL <= most:
        return None, version
    spoken = f"protocol {most}" if least == most else f"protocols {least} to {most}"
    told = f"sesamed {version} at {path} speaks {spoken}, this sesamectl {__version__} speaks {PROTOCOL}"
    return VersionError(f"{told}; {'update sesamectl' if least > PROTOCOL else RESTART}"), version
