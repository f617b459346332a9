"""The token that a request must carry: made once, in a file beside the index that only its owner can read.

Every user of the machine, and every page in a browser, can connect to a port of loopback; the file is what they don't have.
"""

import os
import secrets
import stat

from sesamectl.errors import RefusedError

NAME = "http.token"
BYTES = 32
MOST = 256


def read_token(directory: str) -> tuple[str, str]:
    """The token's file, and the token; made if there is none. Raises RefusedError if others could have read it."""
    path = os.path.join(directory, NAME)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path, _read(path)
    token = secrets.token_urlsafe(BYTES)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return path, token


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise RefusedError(f"others may have read the token in {path}; delete it, and a new one is made")
        token = file.read(MOST).decode("ascii", "replace").strip()
    if len(token) < BYTES or not token.isprintable():
        raise RefusedError(f"there is no token in {path}; delete it, and a new one is made")
    return token
