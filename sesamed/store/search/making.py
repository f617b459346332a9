"""The file of posting arrays, made of what a view shows: all chunks, and the words that are in very many of them.

Which words these are is told by some of the chunks: to count each word of the index would be to read all of it. A word that is missed is
read from the index when somebody asks for it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator

import apsw
import numpy as np

from sesamed.store import sqlite
from sesamed.store.array_file import ArrayFile, Directory, Scribe
from sesamed.store.schema import TOKENIZER
from sesamed.store.search.arrays import Ints, Posting
from sesamed.store.search.ceilings import Rows, describe
from sesamed.store.search.kept import LATE, Kept, measure_average_length
from sesamed.store.search.mapped import Written, write_base
from sesamed.store.search.postings import MOST_LATE, View
from sesamed.store.search.stems import list_stems

SHARE = 0.05  # of the chunks, that a word is in whose arrays are in the file
SAMPLED, SAMPLED_SHARE = 2_000, 0.04  # of that many chunks; a word in SHARE of all is in fewer of them once in fifty
AT_ONCE = 50
REST_SHARE = 1.0  # of the time that a step took, others have before the next one
MOST_REST_S = 0.1


def make_file(file: ArrayFile, view: View, connection: apsw.Connection, is_over: Callable[[], bool]) -> None:
    """Make the file of a view. Raises OSError if it cannot be written, and InterruptError if it is over meanwhile."""

    def fill(scribe: Scribe) -> Directory:
        order = view.list_live()
        written = Written(view.counted.revision, view.ids[order], view.lengths[order])
        stems = _list_common(connection, written, steps)
        return write_base(scribe, written, MOST_LATE, _list_words(connection, view, stems, steps))

    steps = _Steps(is_over)
    file.write(fill)


def write_words(file: ArrayFile, kept: Kept) -> None:
    """Make a file of what is in memory, of the chunks of its beginning: of the words that were asked for, and read from these, alone.
    Raises OSError if it cannot be written."""
    reach = kept.first_reach
    written = Written(kept.first_revision, kept.ids.values[:reach], kept.lengths.values[:reach], is_whole=False)
    file.write(lambda scribe: write_base(scribe, written, MOST_LATE, kept.list_first()))


class _Steps:
    """The pace of something that nobody waits for."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over
        self._begun_s = time.monotonic()

    def pause(self) -> None:
        """Give way after a step."""
        if self._is_over():
            raise apsw.InterruptError
        time.sleep(min(MOST_REST_S, REST_SHARE * (time.monotonic() - self._begun_s)))
        self._begun_s = time.monotonic()


def _list_common(connection: apsw.Connection, written: Written, steps: _Steps) -> list[str]:
    """The words that are in very many chunks, by some that lie apart."""
    numbers = written.ids[:: max(1, len(written.ids) // SAMPLED)].tolist()
    tokenize, found = connection.fts5_tokenizer(*TOKENIZER), Counter[str]()
    for begin in range(0, len(numbers), AT_ONCE):
        for _, *texts in connection.execute(LATE, (sqlite.numbers(numbers[begin : begin + AT_ONCE]),)):
            found.update({stem for text in texts for stem in list_stems(tokenize, text)})
        steps.pause()
    return [stem for stem, chunks in found.most_common() if chunks >= SAMPLED_SHARE * len(numbers)]


def _list_words(
    connection: apsw.Connection, view: View, stems: list[str], steps: _Steps
) -> Iterator[tuple[str, Posting]]:
    order = view.list_live()
    turns = np.zeros(len(view.ids), np.int32)
    turns[order] = np.arange(len(order), dtype=np.int32)
    ids, lengths = view.ids[order], view.lengths[order]
    average = measure_average_length(int(lengths.sum()), len(ids))
    for stem in stems:
        posting = view.find_once(connection, stem)
        if posting.chunks >= SHARE * len(ids):
            ordinals, times = view.list_live_rows(posting)
            at: Ints = turns[ordinals].astype(np.int64)
            turn = np.argsort(at, kind="stable")
            at = at[turn]
            yield stem, describe(at, Rows(ids[at], lengths[at], times[turn]), average)
        steps.pause()
