"""README and docs as data: the commands and examples that they show."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "pi/README.md",
    "pi/skills/sesame/SKILL.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:\A|\n\n)((?:    \S.*\n)+)")


class Example(NamedTuple):
    """Something that a document shows: in which language, and where."""

    page: str
    language: str
    text: str


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def examples(page: str) -> Iterator[Example]:
    """All blocks of a document; those that are indented are commands."""
    text = read(page)
    for language, block in FENCED.findall(text):
        yield Example(page, language, block)
    for block in INDENTED.findall(FENCED.sub("", text)):
        yield Example(page, "sh", block)


def commands(page: str) -> list[str]:
    """The lines for a shell."""
    blocks = [example.text for example in examples(page) if example.language == "sh"]
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
