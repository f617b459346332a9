"""One table of a TOML file, changed in place: comments and everything else stay as somebody wrote them. Pure."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from sesamectl.setup.jsonc import ShapeError, with_line_ends

COMMENT = re.compile(r"#[^\r\n]*")
HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def parse(text: str) -> Any:
    """The value. Raises ValueError."""
    return tomllib.loads(text)


def comments(text: str) -> list[str]:
    """Those in a text without any value."""
    return COMMENT.findall(text)


def set_member(text: str, keys: Sequence[str], name: str, value: Mapping[str, Any]) -> str:
    """The text with this table; of one that is there, what the value does not name stays."""
    path = (*keys, name)
    lines = "".join(f"{key} = {json.dumps(item, ensure_ascii=False)}\n" for key, item in value.items())
    if (found := _find_table(text, path)) is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return text + with_line_ends(text, f"{gap}[{'.'.join(path)}]\n{lines}")
    begin, end = found
    return text[:begin] + with_line_ends(text, lines) + _without(text[begin:end], value) + text[end:]


def remove_member(text: str, keys: Sequence[str], name: str) -> str:
    """The text without the table, and those below it. The comments above the next one stay."""
    path = (*keys, name)
    while (found := _find_table(text, path, below=True)) is not None:
        begin, end = found
        header = text.rfind("\n", 0, begin - 1) + 1
        lines = text[begin:end].splitlines(keepends=True)
        while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            lines.pop()
        before, after = text[:header], text[begin + len("".join(lines)) :]
        if before.strip() and not after.strip():
            text = before.rstrip("\r\n") + with_line_ends(text, "\n") + after
        else:
            text = before + after.lstrip("\r\n")
    return text


def _find_table(text: str, path: Sequence[str], *, below: bool = False) -> tuple[int, int] | None:
    """From behind the header of the table to the next header."""
    names = r"[ \t]*\.[ \t]*".join(rf"""(["']?){re.escape(name)}\{at}""" for at, name in enumerate(path, 1))
    rest = r"[ \t]*(?:\.[^\]\n]*)?" if below else r"[ \t]*"
    header = re.search(rf"^[ \t]*\[[ \t]*{names}{rest}\][ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)", text, re.MULTILINE)
    if header is None:
        return None
    following = HEADER.search(text, header.end())
    return header.end(), len(text) if following is None else following.start()


def _without(body: str, names: Mapping[str, Any]) -> str:
    """The lines of a table without those that give these names a value."""
    kept, lines = list[str](), body.splitlines(keepends=True)
    while lines:
        line = lines.pop(0)
        if re.match(rf"""[ \t]*(["']?)(?:{"|".join(map(re.escape, names))})\1[ \t]*=""", line) is None:
            kept.append(line)
            continue
        while not _is_whole(line):
            if not lines:
                raise ShapeError(f"{line.strip()[:40]} does not end")
            line += lines.pop(0)
    return "".join(kept)


def _is_whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True
