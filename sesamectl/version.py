"""Which versions meet: asked only after something went wrong, so that a search pays nothing for it."""

from __future__ import annotations

from sesamectl import __version__
from sesamectl.client import PROTOCOL, Client
from sesamectl.errors import ClientError, NotSesameError, RpcError, VersionError


def own() -> str:
    """The version of this program."""
    return __version__


def explain(path: str, timeout: float, refused: str = "") -> ClientError | RpcError | None:
    """What is wrong with who answers at this socket; None if nothing is, and the fault lies elsewhere."""
    try:
        with Client(path, timeout) as client:
            hello = client.call("hello", client="sesamectl", protocol=PROTOCOL)
    except RpcError:
        return NotSesameError(f"what answers at {path} is no sesamed: it knows no `hello`; set SESAME_SOCKET")
    except ClientError as error:
        return error
    least, most, version = hello.get("minProtocol"), hello.get("protocol"), hello.get("version")
    if not (isinstance(least, int) and isinstance(most, int)):
        return NotSesameError(f"what answers at {path} names no protocol: it is no sesamed; set SESAME_SOCKET")
    todo = "`sesamectl restart` starts the one that is installed with it"
    if not least <= PROTOCOL <= most:
        todo = "update sesamectl" if least > PROTOCOL else todo
        spoken = f"protocol {most}" if least == most else f"protocols {least} to {most}"
        return VersionError(
            f"sesamed {version} at {path} speaks {spoken}, this sesamectl {own()} speaks {PROTOCOL}; {todo}"
        )
    if refused and version != own():
        return RpcError(0, f"sesamed {version} refused what sesamectl {own()} asks ({refused}); {todo}")
    return None
