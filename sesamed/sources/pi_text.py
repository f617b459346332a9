"""What of pi's texts a person said, and what a session is called. Pure text, no lines."""

import re

from sesamed.sources.pi_lines import Content

NAME_CHARS = 80

SKILL = re.compile(r'\s*<skill name="([^"]*)"[^>]*>.*?</skill>', re.DOTALL)
INJECTED = re.compile(r"\s*<(skill|file)\b[^>]*>.*?</\1>", re.DOTALL)
TIMED_NAME = re.compile(r"\d{4}-\d\d-\d\dT[\d.:-]*Z?_(.+)", re.DOTALL)


def text_of(content: Content) -> str:
    """The text of a message: its text blocks, one after the other."""
    if isinstance(content, str):
        return content
    return "\n".join([block.text for block in content or () if block.type == "text" and block.text])


def without_skills(text: str) -> str:
    """A user's text with `[skill x]` for each skill in front of it: a skill's body is not what the person said."""
    if not text.lstrip().startswith("<skill "):
        return text
    names: list[str] = []
    position = 0
    while match := SKILL.match(text, position):
        names.append(f"[skill {match[1]}]")
        position = match.end()
    return "\n".join(names) + text[position:]


def session_name(text: str) -> str:
    """A line that a person would recognise a session by, from what was asked first; empty if there is none."""
    position = 0
    while match := INJECTED.match(text, position):
        position = match.end()
    for line in text[position:].split("\n"):
        if any(map(str.isalnum, line)):
            return shortened(" ".join(line.split()))
    return ""


def shortened(text: str) -> str:
    """At most 80 characters, cut at a word."""
    if len(text) <= NAME_CHARS:
        return text
    head = text[: NAME_CHARS - 1]
    space = head.rfind(" ")
    return (head[:space] if space > NAME_CHARS // 2 else head).rstrip() + "…"


def native_id(file_name: str) -> str:
    """The session's id from the name of its file or of its directory: `<time>_<id>`, or all of it."""
    stem = file_name.removesuffix(".zst").removesuffix(".jsonl")
    match = TIMED_NAME.fullmatch(stem)
    return match[1] if match else stem


def is_timed(file_name: str) -> bool:
    """Whether pi made this name for a session."""
    return TIMED_NAME.fullmatch(file_name) is not None


def base_name(path: str) -> str:
    """The last part of a path of any system."""
    return re.split(r"[\\/]", path)[-1]
