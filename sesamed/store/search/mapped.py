"""Posting arrays that lie in a file: what is mapped of it, and what is written there."""

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sesamed.store.array_file import ArrayFile, Block, Directory, MappedFile, Mark, Scribe, VoidError, Word, digest_word
from sesamed.store.search.arrays import Base, Column, Ints, Posting


class MappedWords:
    """The words in a file, each compared with its checksum before it is used."""

    def __init__(self, file: ArrayFile, mapped: MappedFile) -> None:
        self._file, self._mapped = file, mapped
        self._mark = Mark(mapped.directory.nonce, mapped.directory.revision)
        self._words = dict(mapped.directory.words)
        self._found = dict[int, Posting]()
        self._lock = threading.Lock()

    def find(self, stem: str) -> Posting | None:
        """The chunks with a word, if it is here and as it was written."""
        number = digest_word(stem)
        with self._lock:
            if number in self._words:
                word = self._words.pop(number)
                try:
                    self._found[number] = self._take(word)
                except VoidError:
                    self._file.void(self._mark)
            return self._found.get(number)

    def _take(self, word: Word) -> Posting:
        data, begin, arrays = self._mapped.read(word.block), 0, list[NDArray[Any]]()
        for count, kind in (
            (word.chunks, np.dtype(np.int32)),
            (word.chunks, np.dtype(f"u{word.times_bytes}")),
            (word.files, np.dtype(np.int32)),
            (word.files, np.dtype(np.int32)),
            (word.files, np.dtype(f"u{word.messages_bytes}")),
            (word.files, np.dtype(np.float16)),
            (word.files, np.dtype(np.float16)),
        ):
            arrays.append(np.frombuffer(data, kind, count, begin))
            begin += arrays[-1].nbytes + -arrays[-1].nbytes % 8
        ordinals, times, files, begins, messages, most, most_said = arrays
        return Posting(ordinals, times, files, begins, messages, most, most_said)


def open_base(file: ArrayFile) -> Base:
    """What is in the file. Raises VoidError if it is not what was written."""
    mapped = file.open()
    about = mapped.directory
    columns = []
    for block, kind in ((about.numbers, np.int64), (about.lengths, np.int32)):
        data = mapped.read_own(block, about.room * np.dtype(kind).itemsize)
        columns.append(np.frombuffer(data, kind, about.chunks + about.room))
    ids, lengths = (Column[Any](column, about.chunks) for column in columns)
    return Base(about.revision, ids, lengths, about.length, about.longest, MappedWords(file, mapped).find)


class Written(NamedTuple):
    """What is to be written: all chunks as of a revision, in the order of their numbers."""

    revision: int
    ids: Ints
    lengths: NDArray[np.int32]
    is_whole: bool = True  # with all words that are in very many chunks


def write_base(scribe: Scribe, written: Written, room: int, words: Iterable[tuple[str, Posting]]) -> Directory:
    """Write all chunks, room for those that come later, and these words."""
    ids, lengths = written.ids, written.lengths
    numbers = _write(scribe, ids)
    scribe.skip(room * ids.itemsize)
    sizes = _write(scribe, lengths)
    scribe.skip(room * lengths.itemsize)
    end = scribe.at
    found = {digest_word(stem): _write_word(scribe, posting) for stem, posting in words}
    return Directory(
        nonce=scribe.nonce, revision=written.revision, chunks=len(ids), room=room, length=int(lengths.sum()),
        longest=int(lengths.max(initial=0)), numbers=numbers, lengths=sizes, own_end=end, words=found, is_whole=written.is_whole,
    )  # fmt: skip


def _write_word(scribe: Scribe, posting: Posting) -> Word:
    block = _write(scribe, *posting[:7])
    return Word(block, len(posting.ordinals), len(posting.files), posting.times.itemsize, posting.messages.itemsize)


def _write(scribe: Scribe, *arrays: NDArray[Any]) -> Block:
    return scribe.add([np.ascontiguousarray(array).data.cast("B") for array in arrays])
