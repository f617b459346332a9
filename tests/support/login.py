"""Login directories, private and not: whoever looks for the socket below /run/user must judge each of them alike."""

import os
from pathlib import Path

OTHER_UID = 12345
PRIVATE = ("private", "without write permission")
CASES = (
    *PRIVATE, "missing", "open to the group", "open to others", "a link to a private directory", "a link to nothing", "a file",
    *(["another owner's"] if os.geteuid() == 0 else []),  # only root gives directories away
)  # fmt: skip
TOO_LONG = (
    ("/" + "x" * 102, False),
    ("/" + "x" * 103, True),
    ("/" + "ü" * 51, False),
    ("/" + "ü" * 52, True),
)  # bytes, not characters


def make_login_directory(run_user: Path, case: str) -> Path:
    """Make this user's directory below what stands for /run/user."""
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
