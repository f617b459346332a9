"""What of pi's texts a person said, and what its files are called. Pure text, no lines."""

import re

from sesamed.sources.pi.lines import Content

SKILL = re.compile(r'\s*<skill name="([^"]*)"[^>]*>.*?</skill>', re.DOTALL)
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
