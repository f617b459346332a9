"""`workspace.yaml`, which lies beside a session's events: what the session is called. Of YAML, as much as Copilot CLI writes."""

import json
import re
from contextlib import suppress
from typing import Final

import msgspec

from sesamed.model import Fact, NameRank
from sesamed.source import BadLineError
from sesamed.sources.names import prompt_fact, title_fact

FIELD: Final = re.compile(r"^(id|name|summary|user_named):[ \t]*(.*)(?:\n((?:[ \t]+.*\n?|[ \t]*\n)*))?", re.MULTILINE)
BLOCK: Final = re.compile(r"[|>][-+0-9]*")


def read_workspace(session: str, data: bytes) -> list[Fact]:
    """The name that the person gave; else the title, which a model made if it is not the first prompt."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadLineError("not UTF-8") from None
    fields: dict[str, str] = {}
    for found in FIELD.finditer(text):
        fields.setdefault(found[1], _value_of(found[2].strip(), found[3] or ""))
    if not fields.get("id"):
        raise BadLineError("no session in it")  # half written
    if fields.get("user_named") == "true":
        return [title_fact(fields.get("name", ""), NameRank.RENAMED, native_id=session)]
    title = prompt_fact(fields.get("name") or fields.get("summary") or "")
    if title is None:
        return []
    rank = NameRank.GIVEN if title.rank == NameRank.PROMPT else NameRank.STAND_IN
    return [msgspec.structs.replace(title, rank=rank, native_id=session)]


def _value_of(value: str, below: str) -> str:
    if BLOCK.fullmatch(value):
        return "\n".join(line.strip() for line in below.split("\n")).strip()
    if value in ("null", "~"):
        return ""
    if value[:1] == '"':
        with suppress(ValueError):
            decoded = json.loads(value)
            return decoded if isinstance(decoded, str) else ""
        return value.strip('"')
    if value[:1] == "'":
        return value[1:].removesuffix("'").replace("''", "'")
    return value
