"""A transcript as older versions of Cursor wrote it: text, with a line before what each side says. What it tells of calls is meant for
reading, so that a line of an answer may look like one."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

SPEAKERS: Final = {"user:": "user", "assistant:": "assistant"}
CALL, RESULT, THOUGHT = "[Tool call] ", "[Tool result]", "[Thinking]"
ARGUMENT: Final = re.compile(r"(\w+)(?:: ?|=)(.*)", re.DOTALL)


class Told(NamedTuple):
    """What one side says."""

    role: str
    text: str
    calls: list[tuple[str, bytes]]  # names, and arguments as JSON


def list_told(text: str) -> Iterator[Told]:
    """Who says what, in order."""
    role, lines = "", list[str]()
    for line in [*text.split("\n"), "user:"]:
        if (speaker := SPEAKERS.get(line.rstrip())) is None:
            lines.append(line)
            continue
        if role:
            yield Told(role, "\n".join(lines).strip(), []) if role == "user" else _read_answer(lines)
        role, lines = speaker, []


def _read_answer(lines: list[str]) -> Told:
    """Texts, and calls with what is indented below them. Thoughts, and that there was a result, are left out, with what is below."""
    texts, calls = list[str](), list[tuple[str, dict[str, list[str]]]]()
    is_below = False
    for line in lines:
        is_call = line.startswith(CALL)
        if is_call:
            calls.append((line.removeprefix(CALL).strip(), {}))
        if is_call or line.startswith((RESULT, THOUGHT)):
            is_below, is_in_call = True, is_call
        elif is_below and (not line.strip() or line[:1].isspace()):
            if is_in_call:
                _add_argument(calls[-1][1], line)
        else:
            is_below = False
            texts.append(line)
    made = [(name, msgspec.json.encode({one: "\n".join(some) for one, some in given.items()})) for name, given in calls]
    return Told("assistant", "\n".join(texts).strip(), made)


def _add_argument(arguments: dict[str, list[str]], line: str) -> None:
    """A line below a call: an argument, or more of the last one."""
    if found := ARGUMENT.fullmatch(line.strip()):
        arguments[found[1]] = [found[2]]
    elif arguments and line.strip():
        arguments[next(reversed(arguments))].append(line.strip())
