"""A sandbox without sockets, as agents run commands in: `python -m tests.support.sandbox CALL PROGRAM ...`.

A filter of seccomp refuses one system call, `connect` or `socket`, to the program and all that it starts.
"""

import ctypes
import os
import platform
import struct
import sys

CALLS = {"x86_64": {"connect": 42, "socket": 41}, "aarch64": {"connect": 203, "socket": 198}}
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2  # of prctl
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of the filter's machine
ALLOW, NOT_PERMITTED = 0x7FFF0000, 0x00050001


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("steps", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def missing() -> str:
    """Why this machine cannot; nothing when it can."""
    return "" if sys.platform == "linux" and platform.machine() in CALLS else "no filter for this system"


def refuse(call: int) -> None:
    """From here on, for ever."""
    steps = ((LOAD, 0, 0, 0), (EQUAL, 0, 1, call), (RETURN, 0, 0, NOT_PERMITTED), (RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or prctl(SECCOMP, FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter")


if __name__ == "__main__":
    refuse(CALLS[platform.machine()][sys.argv[1]])
    os.execvp(sys.argv[2], sys.argv[2:])
