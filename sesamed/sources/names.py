"""Names: titles that were given, lines of prompts for sessions that nobody named, and names of files."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from sesamed.model import Fact, NameRank

NAME_CHARS: Final = 80
TITLE_CHARS: Final = 200  # extensions that name sessions by themselves have written 74,191
SUFFIXES: Final = (".zst", ".jsonl", ".json")
FILE_CHARS: Final = 2000  # a prompt of this length that begins like a file is one
LOOKED_AT: Final = 1 << 16  # characters behind the blocks in front; 20 MB that are all fences took 8 s

INJECTED: Final = re.compile(r"\s*<(skill|file)\b[^>]*>.*?</\1>", re.DOTALL)
BLOCK: Final = re.compile(r"\s*<([A-Za-z][\w-]*+)[^>]*>.*?</\1>", re.DOTALL)
# A line that is a heading, an element of markup, or a fence around code.
FRAME: Final = re.compile(r"#{1,6}\s.*|</?[\w!?][^>]*>|[`~]{3,} ?[\w+-]*")
FENCED: Final = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n(?s:.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE)
COMMAND: Final = re.compile(r"\s*/[\w:-]+\s*")  # one that the agent did not know, and sent as it is
BEGINS_A_FILE: Final = re.compile(r"\s*+(?:#{1,6}\s|#!|---\n|[`~]{3}|<[!?\w]|\{\s*\"|1(?:\t|→))")
# What people say before they say what they want.
GREETING: Final = re.compile(
    r"""(?: hi+ | he+y+ | hello+ | hallo | hola | yo | salut | bonjour | ciao | good\ (?:morning|evening|afternoon) | test(?:ing)? | ping )
    (?: \ (?: there | again | all | everyone | world | claude | codex | gemini | pi )){0,2} | [a-z0-9] | привет | здравствуйте | 你好 | 您好
    | こんにちは | 안녕(?:하세요)?""",
    re.VERBOSE,
)
# What a program says where a title should be, when the model that makes titles could not be asked.
FAILURE: Final = re.compile(
    r"Invalid API key\b.*|API Error:.*|.*· Please run /login|Credit balance is too low|Prompt is too long"
    r"|(?:Claude (?:AI )?)?usage limit reached\b.*|OAuth token .*",
    re.DOTALL | re.IGNORECASE,
)


def title_fact(
    title: str,
    rank: NameRank,
    *,
    keep: Literal["first", "last"] = "last",
    native_id: str | None = None,
    entry: str | None = None,
) -> Fact:
    """A title that somebody gave, on one line; an empty one takes back an earlier one."""
    return Fact(field="name", value=one_line(title), rank=rank, keep=keep, native_id=native_id, entry=entry)


def one_line(title: str) -> str:
    """A title as lists show it."""
    return cut(" ".join(title.split()), TITLE_CHARS)


def is_failure(title: str) -> bool:
    """Whether a title made by a model is a program's complaint that there is none."""
    return FAILURE.fullmatch(title.strip()) is not None


def prompt_fact(text: str, name: str = "") -> Fact | None:
    """The name that a prompt gives: `name`, or its best line; a stand-in if a later prompt will say more. None without words."""
    value = name or session_name(text)
    rank = NameRank.PROMPT if says_something(text) else NameRank.STAND_IN
    return Fact(field="name", value=value, rank=rank) if value else None


def name_facts(prompts: Iterable[str]) -> Iterator[Fact]:
    """The names that a session's prompts give, up to the first one that says what it is about."""
    for text in prompts:
        if (name := prompt_fact(text)) is not None:
            yield name
            if name.rank == NameRank.PROMPT:
                return


def says_something(text: str) -> bool:
    """Whether a prompt says what it is about: it is more than a greeting, a command, headings, injected blocks or a file."""
    text = _drop_blocks(text, BLOCK)
    if len(text) >= FILE_CHARS and BEGINS_A_FILE.match(text):
        return False
    if COMMAND.fullmatch(text) or not any(not FRAME.fullmatch(line) for line in _lines(text)):
        return False
    return len(text) > NAME_CHARS or not GREETING.fullmatch(" ".join(re.findall(r"[\w/]+", text.casefold())))


def session_name(text: str) -> str:
    """The line of a prompt by which a person would recognise the session, a heading only if there is nothing else; empty without words."""
    body = _drop_blocks(text, INJECTED)
    bare = _drop_blocks(body, BLOCK)
    for part in (FENCED.sub("", bare), bare, body):
        for line in _lines(part):
            if not FRAME.fullmatch(line):
                return shorten(line)
    return shorten(next(_lines(body), "").lstrip("# "))


def _drop_blocks(text: str, block: re.Pattern[str]) -> str:
    """The text without the blocks in front of it, as far as it is looked at."""
    position = 0
    while match := block.match(text, position):
        position = match.end()
    return text[position : position + LOOKED_AT]


def _lines(text: str) -> Iterator[str]:
    """The lines that have words, each without needless spaces."""
    for line in text.split("\n"):
        if any(map(str.isalnum, line)):
            yield " ".join(line.split())


def clean_name(name: str) -> str:
    """A file's name as text that can be stored: names that are not UTF-8 come with lone surrogates."""
    return name.encode("utf-8", "backslashreplace").decode()


def stem_of(name: str) -> str:
    """A file's name without the suffixes of session files."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def shorten(text: str) -> str:
    """At most 80 characters, cut at a word."""
    return cut(text, NAME_CHARS)


def cut(text: str, limit: int) -> str:
    """At most so many characters, cut at a word."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 2 else head).rstrip() + "…"
