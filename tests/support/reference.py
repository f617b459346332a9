"""A second reading of pi's files, as simple as can be, to compare the daemon's with. Shares no code with it.

It knows what the tests' sessions are made of: prompts, responses, tool calls and their results, names. A record is told from others by
the bytes of its line, so a copy in a fork is the same record.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A message or a tool call: its line, and what it should read as."""

    line: bytes
    part: int
    role: str
    kind: str
    text: str


def sessions(files: Iterable[Path]) -> dict[str, list[Item]]:
    """The sessions in these files, by id; each file is a session of its own."""
    return dict(session(file.read_bytes()) for file in files)


def session(data: bytes) -> tuple[str, list[Item]]:
    """A session's id and its items, from all whole lines."""
    whole = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    lines = [(line, json.loads(line)) for line in whole if _is_json(line)]
    outputs = {
        entry["message"]["toolCallId"]: _text(entry["message"]["content"])
        for _, entry in lines
        if entry["type"] == "message" and entry["message"]["role"] == "toolResult"
    }
    items = [
        item for line, entry in lines if entry["type"] == "message" for item in _items(line, entry["message"], outputs)
    ]
    return lines[0][1]["id"], items


def distinct(all_items: Iterable[list[Item]], kind: str) -> int:
    """How many records of a kind there are, copies counted once."""
    return len({(item.line, item.part) for items in all_items for item in items if item.kind == kind})


def _items(line: bytes, message: dict[str, Any], outputs: dict[str, str]) -> list[Item]:
    if message["role"] not in {"user", "assistant"}:
        return []
    found = []
    if text := _text(message["content"]):
        found.append(Item(line, -1, message["role"], "message", text))
    for part, block in enumerate(message["content"]):
        if block["type"] == "toolCall":
            shown = "".join(f"\n{name}: {value}" for name, value in block["arguments"].items())
            output = f"\noutput:\n{outputs[block['id']]}" if block["id"] in outputs else ""
            found.append(Item(line, part, message["role"], "tool_call", f"tool: {block['name']}{shown}{output}"))
    return found


def _text(content: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
