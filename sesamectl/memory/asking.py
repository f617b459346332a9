"""Runs the command that asks a model: the prompt on its standard input, the answer from its standard output."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from sesamectl.errors import RefusedError

MAX_OUTPUT = 1 << 20
BLOCK = 64 << 10
GRACE_S = 0.3  # for what a command has printed, for its end to be noticed, and that nobody wants it any more
KEPT_COMPLAINT = 2000
SHOWN_COMPLAINT = 200


class AskingError(Exception):
    """There is no answer that could be stored."""


class CommandError(AskingError):
    """The command failed, or took too long. What it complained of may be anybody's words: it is shown, and not logged."""

    def __init__(self, why: str, complaint: str = "") -> None:
        super().__init__(f"{why}: {complaint}" if complaint else why)
        self.why = why


def ask_model(
    command: Sequence[str],
    prompt: str,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    check: Callable[[], None] = lambda: None,
) -> str:
    """What the command prints. Raises CommandError; RefusedError if it cannot be run at all; and what `check` raises, now and then, once
    nobody wants it any more.
    """
    try:
        process = subprocess.Popen(  # noqa: S603  # the person configured it
            _from_anywhere(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            cwd=_home(), env=environment,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise RefusedError(f"cannot run {command[0]}: {why}; it is memory.command in the configuration") from None
    try:
        output, complaint = _exchange(process, prompt.encode(errors="replace"), timeout_s, check)
    finally:
        _end(process)
    if process.returncode:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2][:SHOWN_COMPLAINT]
        raise CommandError(f"{command[0]} ended with {process.returncode}", last)
    return output.decode(errors="replace")


def _from_anywhere(command: Sequence[str]) -> list[str]:
    return [os.path.abspath(command[0]) if os.path.dirname(command[0]) else command[0], *command[1:]]


def _home() -> str:
    """Where it runs. Not in the current directory: agents do what a project's own settings say, and whoever wrote those could have
    prompts sent to themselves.
    """
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else "/"


def _exchange(
    process: subprocess.Popen[bytes], prompt: bytes, timeout_s: float, check: Callable[[], None]
) -> tuple[bytes, bytes]:
    """Feed it, and take what it prints: no more than an answer can have."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    give_up_at = time.monotonic() + timeout_s
    received = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    output, complaint = received.values()
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                raise _late(timeout_s)
            check()
            events = selector.select(min(left_s, GRACE_S))
            if not events and process.poll() is not None:  # what it started, and left, holds the pipes
                break
            for key, _ in events:
                if key.fileobj is process.stdin:
                    prompt = _feed(process.stdin, prompt)
                    is_done = not prompt
                else:
                    data = os.read(key.fd, BLOCK)
                    received[key.fd] += data
                    is_done = not data
                if is_done:
                    selector.unregister(key.fileobj)
            if len(output) > MAX_OUTPUT:
                raise CommandError(f"it printed more than {MAX_OUTPUT >> 20} MiB")
            del complaint[:-KEPT_COMPLAINT]
    try:
        process.wait(max(0.0, give_up_at - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _late(timeout_s) from None
    return bytes(output), bytes(complaint)


def _late(timeout_s: float) -> CommandError:
    return CommandError(f"no answer within {timeout_s:g} s (memory.timeoutSeconds)")


def _feed(stdin: IO[bytes], prompt: bytes) -> bytes:
    """Write what fits; gives what is left."""
    try:
        left = prompt[os.write(stdin.fileno(), prompt[:BLOCK]) :]
    except BlockingIOError:
        return prompt
    except BrokenPipeError:  # it has read enough
        left = b""
    if not left:
        stdin.close()
    return left


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all that it started, if it still runs."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        try:
            pipe.close()
        except BrokenPipeError:
            continue
