"""Makes a corpus of pi sessions (version 3 of the format) that looks like work, the same bytes for the same seed.

    python bench/generate.py --out DIR --messages 100000 --sessions 2000 [--seed 1] [--jobs 2]

What makes an index slow is in it: words by Zipf's law with a long tail, identifiers and paths, numbers and hashes that occur once,
texts of log-normal sizes, tool results with a heavy tail, and topics: some rare words occur far more often in a session. About
1.8 KB a message and 1.25 chunks a message. Session `i` holds the word `needle{i:07d}x` once. A file's times follow from the
session's number, the newest one is the last. What is not in it: other scripts than Latin, real grammar, and repetition (real
sessions compress much better).

Every session is made from (seed, number) alone, so the number of processes makes no difference. Needs nothing but Python.
"""

import argparse
import json
import math
import os
import uuid
from array import array
from bisect import bisect
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, chain
from random import Random
from typing import Any, NamedTuple

COMMON = """
the to of and a in is it you that we for on this be with have are not as can if do at but from or an will so your my what should
when then there all one just which how now need also more use any these has they was by no some make let me only into than first
like want other after before about out up been would each same because where could its here new does them using
""".split()  # nobody can read that many quotes
TRADE = """
error file function test code line return value type string list data class import path name run build config server client
request response message session index search query token parse update delete create read write call result output input module
package version commit branch merge check fix change add remove issue bug feature user database table schema column row key cache
memory thread process async await lock queue task worker socket stream buffer byte encode decode json http api url route handler
auth login password permission role group event listener callback timeout retry failure warning debug log trace exception stack
frame variable parameter argument option flag default setting environment docker container image deploy release pipeline job step
script shell command directory folder permission symlink watch daemon service restart signal kill start stop python typescript
javascript rust sqlite postgres redis kubernetes nginx webpack pytest mypy ruff
""".split()  # nobody can read that many quotes
SYLLABLES = """
ba co di fe gu ha jo ki lu ma ne po qui ra so ti vu we xe za bri cla dro fli gra ple sta tru sho the mer lan ver con per tor ment al
""".split()  # nobody can read that many quotes
ENDINGS = ("", "", "", "s", "ed", "ing", "er", "ation", "ly", "ness", "able", "ize")
SUFFIXES = ("py", "ts", "tsx", "rs", "go", "md", "json", "toml", "sql", "yaml")
TOOLS = ("bash", "read", "edit", "write", "grep")
TOOL_SHARES = (45, 70, 85, 90, 100)

WORDS, IDENTIFIERS = 60_000, 40_000
TABLE_BITS = 20  # so fine that the rarest word still has a place
BEGAN_MS = 1_767_225_600_000  # 2026-01-01
APART_MS = 630_720  # between the beginnings of two sessions: ten minutes
PROSE_GAPS = (*[" "] * 14, ", ", ". ", ".\n", ": ")
CODE_GAPS = (" ", " ", " ", "(", ") ", ".", " = ", ", ", "\n    ", "\n", ": ", " -> ", "[", "] ", '"', " // ")


class Style(NamedTuple):
    """How a kind of text is made."""

    words: list[str]  # each as often as it is likely
    gaps: list[str]
    bytes_a_word: float
    once: float  # the share of words that occur nowhere else


class Vocabulary(NamedTuple):
    """All that sessions have in common."""

    prose: Style
    code: Style
    rare: list[str]


class Size(NamedTuple):
    """A log-normal size in bytes, and its bound."""

    median: float
    sigma: float
    most: int


USER = Size(180, 1.0, 8_000)
ASSISTANT = Size(330, 0.9, 12_000)
THINKING = Size(400, 0.8, 6_000)
RESULT = Size(700, 1.6, 50_000)
COMMAND = Size(90, 0.7, 2_000)
OLD_TEXT = Size(250, 0.9, 8_000)
NEW_TEXT = Size(320, 0.9, 8_000)
WRITTEN = Size(1_500, 1.0, 30_000)


def vocabulary(seed: int) -> Vocabulary:
    """The words, the same ones for all sessions of a seed."""
    random = Random(f"words/{seed}")
    words = _words(random)
    identifiers = _identifiers(random, words[:5_000])
    size = 1 << TABLE_BITS
    prose = _by_zipf(words, 1.05, size * 94 // 100) + _by_zipf(identifiers, 0.95, size - size * 94 // 100)
    code = _by_zipf(words, 1.05, size * 62 // 100) + _by_zipf(identifiers, 0.95, size - size * 62 // 100)
    return Vocabulary(
        Style(prose, _filled(PROSE_GAPS), 6.0, 0.005),
        Style(code, _filled(CODE_GAPS), 8.2, 0.05),
        words[200:],
    )


def _words(random: Random) -> list[str]:
    words = dict.fromkeys(COMMON + TRADE)
    while len(words) < WORDS:
        syllables = random.choice((1, 2, 2, 2, 3, 3))
        words["".join(random.choice(SYLLABLES) for _ in range(syllables)) + random.choice(ENDINGS)] = None
    return list(words)


def _identifiers(random: Random, words: list[str]) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < IDENTIFIERS:
        first, second, third = (random.choice(words) for _ in range(3))
        forms = (
            f"{first}_{second}",
            f"{first}{second.capitalize()}{third.capitalize()}",
            f"src/{first}/{second}.{random.choice(SUFFIXES)}",
            f"{first.capitalize()}{second.capitalize()}.{third}",
        )
        found[random.choice(forms)] = None
    return list(found)


def _by_zipf(words: list[str], exponent: float, size: int) -> list[str]:
    """A table in which each word has places by its likelihood: to draw is one look-up."""
    sums = list(accumulate((rank + 1) ** -exponent for rank in range(len(words))))
    scale = sums[-1] / size
    return [words[bisect(sums, (place + 0.5) * scale)] for place in range(size)]


def _filled(gaps: tuple[str, ...]) -> list[str]:
    """The gaps as a table of 256 places, so that a random byte draws one."""
    return [gaps[place * len(gaps) >> 8] for place in range(256)]


class Writer:
    """Draws the texts of one session."""

    def __init__(self, words: Vocabulary, random: Random) -> None:
        self._words = words
        self._random = random
        self._topic = [random.choice(words.rare) for _ in range(30)]

    def text(self, size: Size, *, code: bool) -> str:
        """A text of about this size."""
        return self.exactly(min(size.most, size.median * math.exp(self._random.gauss(0, size.sigma))), code=code)

    def exactly(self, size: float, *, code: bool) -> str:
        """A text of so many characters."""
        style = self._words.code if code else self._words.prose
        count = max(1, int(size / style.bytes_a_word))
        draw = self._random.randbytes
        table, gaps = style.words, style.gaps
        words = [table[place >> 32 - TABLE_BITS] for place in array("I", draw(4 * count))]
        self._sprinkle(words, style)
        between = [gaps[place] for place in draw(count)]
        return "".join(chain.from_iterable(zip(words, between, strict=True)))[: max(8, int(size))]

    def _sprinkle(self, words: list[str], style: Style) -> None:
        """Put in words of the topic, and ones that occur once."""
        chance, bits, topic, count = self._random.random, self._random.getrandbits, self._topic, len(words)
        for _ in range(self._about(count * 0.05)):
            words[int(chance() * count)] = topic[int(chance() * 30)]
        for _ in range(self._about(count * style.once)):
            words[int(chance() * count)] = f"{bits(28):x}" if bits(1) else str(bits(17))

    def _about(self, expected: float) -> int:
        return int(expected + self._random.random())


class Session:
    """One session's lines. Asks, answers, calls and results follow each other as in pi's own files."""

    def __init__(self, words: Vocabulary, seed: int, number: int, length: int, directories: int) -> None:
        self._random = Random(f"session/{seed}/{number}")
        self._writer = Writer(words, self._random)
        self._length = length
        self._needle = f" needle{number:07d}x"
        self._needle_at = self._random.randrange(max(1, length // 4))
        self._parent: str | None = None
        self._call: tuple[str, str] | None = None
        self._project = number % directories
        self.id = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        self.began_ms = self.last_ms = BEGAN_MS + number * APART_MS + self._random.randrange(10**6)

    @property
    def cwd(self) -> str:
        """Where the session ran."""
        return f"/home/me/code/proj{self._project}"

    @property
    def path(self) -> str:
        """Where pi would put the file, below its directory of sessions."""
        stamp = _iso(self.began_ms).replace(":", "-").replace(".", "-")
        return os.path.join(f"--home-me-code-proj{self._project}--", f"{stamp}_{self.id}.jsonl")

    def lines(self) -> Iterator[str]:
        """The header and the messages."""
        began = _iso(self.began_ms)
        yield _json({"type": "session", "version": 3, "id": self.id, "timestamp": began, "cwd": self.cwd})
        for number in range(self._length):
            self.last_ms += self._random.randrange(500, 60_000)
            message = self._message(number)
            message["timestamp"] = self.last_ms
            entry = self._hex(32)
            line = {"type": "message", "id": entry, "parentId": self._parent, "timestamp": _iso(self.last_ms)}
            yield _json({**line, "message": message})
            self._parent = entry

    def _message(self, number: int) -> dict[str, Any]:
        if self._call is not None:
            return self._result(*self._call)
        if number == 0 or self._random.random() < 0.18:
            text = self._marked(number, self._writer.text(USER, code=self._random.random() < 0.15))
            return {"role": "user", "content": [_text(text)]}
        return self._assistant(number)

    def _result(self, call: str, tool: str) -> dict[str, Any]:
        self._call = None
        text = self._writer.text(RESULT, code=True)
        fields = {"role": "toolResult", "content": [_text(text)], "toolCallId": call, "toolName": tool}
        return {**fields, "isError": self._random.random() < 0.07}

    def _assistant(self, number: int) -> dict[str, Any]:
        random, content = self._random, list[dict[str, Any]]()
        if random.random() < 0.25:
            thought = self._writer.text(THINKING, code=False)
            content.append({"type": "thinking", "thinking": thought, "thinkingSignature": self._hex(1600)})
        calls = random.random() < 0.8
        if not (calls and random.random() < 0.35):
            text = self._writer.text(ASSISTANT, code=random.random() < 0.25)
            content.append(_text(self._marked(number, text)))
        if calls:
            content.append(self._tool_call())
        return {
            "role": "assistant", "content": content, "api": "anthropic-messages", "provider": "anthropic",
            "model": "claude-sonnet-4-5", "usage": self._usage(), "stopReason": "toolUse" if calls else "stop",
        }  # fmt: skip

    def _tool_call(self) -> dict[str, Any]:
        tool = TOOLS[bisect(TOOL_SHARES, self._random.randrange(100))]
        self._call = (f"toolu_{self._hex(96)}", tool)
        return {"type": "toolCall", "id": self._call[0], "name": tool, "arguments": self._arguments(tool)}

    def _arguments(self, tool: str) -> dict[str, str]:
        code = partial(self._writer.text, code=True)
        if tool == "bash":
            return {"command": code(COMMAND)}
        if tool == "grep":
            return {"pattern": self._writer.exactly(20, code=True), "path": self.cwd}
        path = self.cwd + "/" + self._writer.exactly(30, code=True).split("\n")[0].replace(" ", "_")
        if tool == "edit":
            return {"path": path, "oldText": code(OLD_TEXT), "newText": code(NEW_TEXT)}
        return {"path": path, "content": code(WRITTEN)} if tool == "write" else {"path": path}

    def _usage(self) -> dict[str, Any]:
        tokens = self._random.randrange(100, 90_000)
        cost = {"input": 0.001, "output": 0.004, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.005}
        counts = {"input": tokens, "output": 311, "cacheRead": tokens * 2, "cacheWrite": 77, "totalTokens": tokens * 3}
        return {**counts, "cost": cost}

    def _marked(self, number: int, text: str) -> str:
        """With the needle, in the first text that may hold it."""
        if not self._needle or number < self._needle_at:
            return text
        needle, self._needle = self._needle, ""
        return text + needle

    def _hex(self, bits: int) -> str:
        return f"{self._random.getrandbits(bits):0{bits // 4}x}"


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{ms % 1000:03d}Z")


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Corpus(NamedTuple):
    """What was asked for."""

    out: str
    messages: int
    sessions: int
    seed: int = 1

    @property
    def directories(self) -> int:
        """How many projects there are."""
        return max(4, self.sessions // 40)

    def lengths(self) -> list[int]:
        """How many messages each session has: log-normal, and together as many as were asked for."""
        random = Random(f"lengths/{self.seed}")
        shares = [math.exp(random.gauss(0, 1.1)) for _ in range(self.sessions)]
        scale = self.messages / sum(shares)
        lengths = [max(2, int(share * scale)) for share in shares]
        lengths[0] = max(2, lengths[0] + self.messages - sum(lengths))
        return lengths


_words_of_process: dict[int, Vocabulary] = {}


def write_session(corpus: Corpus, number: int, length: int) -> int:
    """Make one session's file; its size."""
    if corpus.seed not in _words_of_process:
        _words_of_process[corpus.seed] = vocabulary(corpus.seed)
    session = Session(_words_of_process[corpus.seed], corpus.seed, number, length, corpus.directories)
    data = ("\n".join(session.lines()) + "\n").encode()
    path = os.path.join(corpus.out, session.path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.utime(path, (session.last_ms / 1000, session.last_ms / 1000))
    return len(data)


def generate(corpus: Corpus, jobs: int) -> str:
    """Make the corpus; says what it is."""
    lengths = corpus.lengths()
    with ProcessPoolExecutor(jobs) as pool:
        work = partial(write_session, corpus)
        size = sum(pool.map(work, range(corpus.sessions), lengths, chunksize=8))
    return (
        f"{corpus.sessions} sessions, {sum(lengths)} messages, {size / 1e6:.1f} MB in {corpus.directories} directories,"
        f" the longest of {max(lengths)} messages"
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="directory to make the sessions in; it should be empty")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    flags = parser.parse_args()
    print(generate(Corpus(flags.out, flags.messages, flags.sessions, flags.seed), flags.jobs))


if __name__ == "__main__":
    main()
