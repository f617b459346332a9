"""What a person typed to what FTS5 is asked. Pure.

Every word is quoted, so no character of it is query syntax; FTS5's tokenizer makes a phrase of `package.json` by itself. The words
are joined by OR: asking for all of them at once finds nothing for a third of real questions (docs/search.md).
"""

import msgspec

MAX_WORDS = 64
MAX_WORD_CHARACTERS = 256
EVERYTHING = ("", "*")


class Query(msgspec.Struct, frozen=True):
    """A compiled question. Without a `match` there is nothing to look for; `everything` asks for all sessions."""

    words: tuple[str, ...]
    dropped: tuple[str, ...]
    match: str | None
    everything: bool = False


def compiled(text: str) -> Query:
    """Compile what was typed; there is no text that FTS5 would refuse."""
    if text.strip() in EVERYTHING:
        return Query((), (), None, everything=True)
    words: dict[str, str] = {}
    dropped = []
    for word in text.replace("\0", " ").encode("utf-8", "replace").decode().split():
        if len(words) >= MAX_WORDS or not any(character.isalnum() for character in word):
            dropped.append(word[:MAX_WORD_CHARACTERS])
        else:
            words.setdefault(word.casefold(), word[:MAX_WORD_CHARACTERS])
    found = tuple(words.values())
    return Query(found, tuple(dropped), " OR ".join(map(quoted, found)) or None)


def quoted(word: str) -> str:
    """A word as an FTS5 string."""
    return '"' + word.replace('"', '""') + '"'
