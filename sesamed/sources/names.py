"""Names of sessions that nobody named (a line of the first prompt), and of files."""

import re

NAME_CHARS = 80
SUFFIXES = (".zst", ".jsonl", ".json")

INJECTED = re.compile(r"\s*<(skill|file)\b[^>]*>.*?</\1>", re.DOTALL)


def session_name(text: str) -> str:
    """The line of the first prompt that a person would recognise the session by; empty if there is none."""
    position = 0
    while match := INJECTED.match(text, position):
        position = match.end()
    for line in text[position:].split("\n"):
        if any(map(str.isalnum, line)):
            return shorten(" ".join(line.split()))
    return ""


def clean_name(name: str) -> str:
    """A file's name as text that can be stored: names that are not UTF-8 contain lone surrogates."""
    return name.encode("utf-8", "backslashreplace").decode()


def stem_of(name: str) -> str:
    """A file's name without the suffixes of session files."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def shorten(text: str) -> str:
    """At most 80 characters, cut at a word."""
    if len(text) <= NAME_CHARS:
        return text
    head = text[: NAME_CHARS - 1]
    space = head.rfind(" ")
    return (head[:space] if space > NAME_CHARS // 2 else head).rstrip() + "…"
