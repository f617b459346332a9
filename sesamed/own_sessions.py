"""Sessions that the daemon stores itself, and annotations of any session, as files in the data directory.

They come into the index like everybody else's files: written, marked, looked at. A message is in the file, and searchable, when
`append` returns; it is not forced onto the disk, as agents don't force theirs: it outlives the daemon, not a power cut. What a
person says once (a new session, annotations) is forced.
"""

import errno
import logging
import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import TypeVar

import anyio
import msgspec

from sesamed.errors import DeadlineError, NotFoundError, RefusedError, SesameError, StoreError
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.queue import Ticket
from sesamed.masking import mask
from sesamed.model import Annotations, Generation, SessionKey, Utterance, iso
from sesamed.sources import sesame
from sesamed.store.sqlite import sync_directory, sync_file

T = TypeVar("T")
log = logging.getLogger(__name__)

PATIENCE_S = 20.0


class OwnSessions:
    """The files in one data directory."""

    def __init__(self, directory: str, indexer: Indexer) -> None:
        self._directory = os.path.realpath(directory)
        self._annotations_dir = os.path.join(self._directory, "words")
        self._indexer = indexer
        self._write_lock = anyio.Lock()
        self._mask = (
            mask if indexer.secrets == "drop" else str
        )  # of what is stored; what is indexed of it is masked later

    async def begin(
        self, *, agent: str | None, sender: str | None, cwd: str | None, title: str | None
    ) -> tuple[str, str]:
        """A new session; its id and its file."""
        if cwd is not None:
            await self._check_place(cwd)
        session, now = new_id(), _now()
        path = os.path.join(self._directory, f"{session}.jsonl")
        agent, sender, title = (self._mask_or_none(text) for text in (agent, sender, title))
        line = sesame.Line(
            type=sesame.SESSION, id=session, timestamp=now, agent=agent, created_by=sender, cwd=cwd, title=title
        )
        await self._write(partial(_begin, path, sesame.encode_line(line)), path)
        return session, path

    async def _check_place(self, cwd: str) -> None:
        try:
            verdict = await self._indexer.in_thread(partial(self._indexer.projects.judge, cwd))
        except OSError as error:
            raise StoreError(f"{cwd} cannot be looked at: {error.strerror}; nothing was saved") from error
        if verdict is not None:
            raise RefusedError(f"{verdict.by} excludes sessions in {cwd}; nothing was saved")

    def key(self, path: str, utterance: Utterance) -> int | None:
        """The key of the call with this id."""
        if utterance.call is None or not (utterance.tool or utterance.role == "tool"):
            return None
        return sesame.key_of(_session_of(path), sesame.make_line("", "", utterance))

    async def append(self, path: str, utterance: Utterance) -> int:
        """Append to a session's file; returns the key of the new record."""
        if os.path.dirname(path) != self._directory:
            raise RefusedError(
                f"{path} was not created by this daemon; append_message only works for sessions from new_session"
            )
        entry, now = secrets.token_hex(6), _now()

        def write() -> int:
            """Masking a long text may take seconds, so it is done in the thread, too."""
            masked = msgspec.structs.replace(utterance, text=self._mask(utterance.text))
            line = sesame.make_line(entry, now, masked)
            _append(path, sesame.encode_line(line))
            return sesame.key_of(_session_of(path), line)

        async with self._write_lock:
            return await self._write(write, path)

    async def describe(
        self, session: SessionKey, annotations: Annotations, generation: Generation | None = None, model: str = ""
    ) -> None:
        """Store the annotations of a session of any source: a person's, or a model's."""
        path = self._annotations_file(session)

        def merge(before: bytes) -> bytes:
            masked, by = self._mask_annotations(annotations), self._mask(model)
            return sesame.merge_annotations(session, masked, before, generation, by)

        async with self._write_lock:
            await self._write(partial(_describe, path, merge), path)

    async def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Remove the annotations of sessions; of two sessions with one id they belong to both, and stay."""
        paths = [self._annotations_file(session) for session in sessions if not session.origin]
        async with self._write_lock:
            try:
                await self._indexer.in_thread(partial(_remove, paths))
            except OSError as error:
                raise StoreError(
                    f"{error.filename} cannot be removed: {error.strerror}; it has the annotations of a session that was forgotten"
                ) from error
            await self._indexer.drop([os.fsencode(path) for path in paths])

    def _mask_annotations(self, annotations: Annotations) -> Annotations:
        return Annotations(
            title=self._mask_or_none(annotations.title),
            summary=self._mask_or_none(annotations.summary),
            description=self._mask_or_none(annotations.description),
            tags=self._mask_all(annotations.tags),
            recall_words=self._mask_all(annotations.recall_words),
        )

    def _mask_all(self, words: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if words is None else tuple(map(self._mask, words))

    def _mask_or_none(self, text: str | None) -> str | None:
        return None if text is None else self._mask(text)

    def _annotations_file(self, session: SessionKey) -> str:
        name = blake2b(f"{session.source}\0{session.native_id}".encode("utf-8", "surrogatepass"), digest_size=16)
        return os.path.join(self._annotations_dir, f"{name.hexdigest()}.jsonl")

    async def _write(self, write: Callable[[], T], path: str) -> T:
        """Write, and wait until it is searchable; returns what writing gave."""
        indexer = self._indexer

        def write_and_mark() -> tuple[T, Ticket | None]:
            """In one go: an event of the write marks the file, too, and after a look that began before our mark there is another one."""
            ((_, target),) = indexer.sweep.targets([path])
            written = write()
            if target is None:  # the root may have been made just now
                ((_, target),) = indexer.sweep.targets([path])
            return written, None if target is None else indexer.queue.mark(target, always=True)

        try:
            written, ticket = await indexer.in_thread(write_and_mark)
        except FileNotFoundError:
            raise NotFoundError(
                f"{path} no longer exists. Its messages stay readable; use new_session for another one"
            ) from None
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}; nothing was saved") from error
        if ticket is None:
            raise RefusedError(f"{path} was written, but the configuration excludes it, so it cannot be searched")
        with anyio.move_on_after(PATIENCE_S):
            await indexer.queue.wait_for([ticket])
            if ticket.state.trouble is not None:
                raise StoreError(f"{path} was written, but cannot be read: {ticket.state.trouble}")
            return written
        raise _too_late(path, indexer.trouble)


def new_id() -> str:
    """A UUID of version 7: later ones sort after earlier ones."""
    ms, noise = int(time.time() * 1000), secrets.token_hex(10)
    variant = "89ab"[int(noise[3], 16) & 3]
    return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{noise[:3]}-{variant}{noise[4:7]}-{noise[7:19]}"


def _too_late(path: str, trouble: SesameError | None) -> SesameError:
    if trouble is not None:
        return StoreError(f"{path} was written, but is not searchable until the index can be written: {trouble}")
    return DeadlineError(f"{path} was written, but is not searchable yet after {PATIENCE_S:.0f} s; `sync` waits for it")


def _now() -> str:
    return iso(int(time.time() * 1000))


def _session_of(path: str) -> str:
    return os.path.basename(path).removesuffix(".jsonl")


def _begin(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # people are told that they may delete what is there
    _replace(path, data)


def _append(path: str, data: bytes) -> None:
    """Append a line with one write; if only a part could be written, it is removed again."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            data = b"\n" + data  # somebody else's line has no end
        written = os.write(descriptor, data)
        if written < len(data):
            os.ftruncate(descriptor, size)
        _refuse_less(written, data)
    finally:
        os.close(descriptor)


def _refuse_less(written: int, data: bytes) -> None:
    """Of what does not fit onto the disk, the first part is written, and that is no error to the system."""
    if written < len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")


def _describe(path: str, merge: Callable[[bytes], bytes]) -> None:
    before, directory = b"", os.path.dirname(path)
    if os.path.islink(directory):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), directory)
    with suppress(FileNotFoundError), open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        before = file.read()
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if bad := sesame.count_unreadable(before):
        log.warning("annotations that could not be read were written anew path=%r lines=%d", path, bad)
    _replace(path, merge(before))


def _replace(path: str, data: bytes) -> None:
    """The file has this content now, or the one that it had; on the disk."""
    beside = f"{path}.new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _refuse_less(os.write(descriptor, data), data)
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    os.replace(beside, path)
    sync_directory(os.path.dirname(path))


def _remove(paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
