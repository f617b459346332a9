"""Where the socket is: login directories, private and not, and variables. Daemon, sesamectl and pi must judge each of them alike."""

import os
from pathlib import Path

OTHER_UID = 12345
PRIVATE = ("private", "without write permission", "below a link")
CASES = (
    *PRIVATE, "missing", "open to the group", "open to others", "a link to a private directory", "a link to nothing", "a file",
    *(["another owner's"] if os.geteuid() == 0 else []),  # only root gives directories away
)  # fmt: skip
NAMED = (
    ({"SESAME_SOCKET": "/s/x.sock"}, "/s/x.sock"),
    ({"SESAME_SOCKET": "/link/../s//x.sock", "SESAME_RUNTIME_DIR": "/r"}, "/s/x.sock"),
    ({"SESAME_SOCKET": "", "SESAME_RUNTIME_DIR": "/r"}, "/r/sesamed.sock"),
    ({"SESAME_RUNTIME_DIR": "/link/../r/./"}, "/r/sesamed.sock"),
    ({"SESAME_RUNTIME_DIR": "/r", "XDG_RUNTIME_DIR": "/x", "HOME": "/h"}, "/r/sesamed.sock"),
)  # variables, and the socket that they name
TOO_LONG = (
    ("/" + "x" * 102, False),
    ("/" + "x" * 103, True),
    ("/" + "ü" * 51, False),
    ("/" + "ü" * 52, True),
)  # bytes, not characters


def make_login_directory(run_user: Path, case: str) -> Path:
    """Make this user's directory below what stands for /run/user."""
    if case == "below a link":
        (run_user.parent / f"{run_user.name}-real").mkdir()
        run_user.rmdir()
        run_user.symlink_to(f"{run_user.name}-real")
    login = run_user / str(os.geteuid())
    if case == "a file":
        login.touch(mode=0o600)
    elif case == "a link to a private directory":
        (run_user / "real").mkdir(mode=0o700)
        login.symlink_to("real")
    elif case == "a link to nothing":
        login.symlink_to("nothing")
    elif case != "missing":
        login.mkdir()
        login.chmod(
            {"without write permission": 0o500, "open to the group": 0o750, "open to others": 0o701}.get(case, 0o700)
        )
        if case == "another owner's":
            os.chown(login, OTHER_UID, -1)
    return login
