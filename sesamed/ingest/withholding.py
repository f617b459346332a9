"""Which units nothing is kept of, because a `.sesameignore` in a project excludes the sessions that worked there: those that say so
themselves, other files of such a session, its subagents, and what is said of it elsewhere.
"""

import os
from contextlib import suppress
from threading import RLock

import msgspec

from sesamed.ingest.project import Projects
from sesamed.store.rows import Cursor, FileRows, IndexedFile, Withheld, blank


class WithheldError(Exception):
    """Nothing of a unit is to be kept."""

    def __init__(self, why: Withheld) -> None:
        super().__init__(os.fsdecode(why.by))
        self.why = why


class Withholding:
    """The units of which nothing is kept, because a project's `.sesameignore` excludes their sessions."""

    def __init__(self, projects: Projects) -> None:
        self.projects = projects
        self.revision = 0  # grows with the sessions
        self._units: dict[bytes, Withheld] = {}
        self._of_session: dict[tuple[str, str], set[bytes]] = {}  # by source and native id
        self._places: dict[int, str] = {}  # directories, by the entries of the sessions that others say were there
        self._lock = RLock()  # a new index may be read beside this one

    def find(self, path: bytes) -> Withheld | None:
        """Why nothing is kept of a unit, as far as that still holds."""
        withheld = self._units.get(path)
        with suppress(OSError):  # nobody can tell now, and it stays
            return withheld if withheld is not None and self.projects.judge(withheld.cwd) is not None else None
        return withheld

    def add(self, path: bytes, source: str, withheld: Withheld) -> None:
        """Nothing is kept of this unit."""
        with self._lock:
            self._units[path] = withheld
            units = self._of_session.setdefault((source, withheld.native_id), set())
            self.revision += not units
            units.add(path)

    def load(self, path: bytes, source: str, withheld: Withheld) -> None:
        """Nothing was kept of this unit when it was last read."""
        self.add(path, source, withheld)
        self.projects.remember(withheld.cwd, os.fsdecode(withheld.by))

    def release(self, path: bytes, source: str) -> None:
        """It is read again, or not there any more."""
        with self._lock:
            withheld = self._units.pop(path, None)
            if withheld is not None and (units := self._of_session.get((source, withheld.native_id))) is not None:
                units.discard(path)
                if not units:
                    del self._of_session[source, withheld.native_id]

    def list_excluded(self) -> tuple[list[str], list[tuple[str, str, str, str]]]:
        """The directories whose sessions have to go from the index, and the sessions (source, native id, origin, directory) of which
        nothing is kept already."""
        directories = self.projects.list_excluded()
        with self._lock:
            units = [
                (source, native_id, why.origin, why.cwd)
                for (source, native_id), paths in self._of_session.items()
                for why in map(self._units.__getitem__, paths)
            ]
        return directories, [unit for unit in units if unit[-1] in directories]

    def make_change(
        self, known: IndexedFile, cwd: str, native_id: str, origin: str, parent: str | None, is_own: bool
    ) -> FileRows | None:
        """The change by which nothing is kept of a file any more."""
        verdict = None
        with suppress(OSError):  # nobody can tell now: it is asked again
            verdict = self.projects.judge(cwd)
        if verdict is None:
            return None
        why = Withheld(os.fsencode(verdict.by), cwd, native_id, origin, parent, is_own)
        change = FileRows(
            path=known.path,
            root=known.root,
            source=known.source,
            source_version=known.source_version,
            signature=known.signature,
            cursor=Cursor(),
            complete=True,
        )
        blank(change, why)
        self.add(known.path, known.source, why)
        return change

    def locate(self, entry: int, cwd: str) -> None:
        """The sessions with this entry were in this directory."""
        self._places[entry] = cwd
        self.projects.judge(cwd)

    def decide(self, change: FileRows) -> Withheld | None:
        """Why nothing may be kept of a unit: its directory, or what is known of its session, or of the one that it works for. Raises
        OSError if that has to wait, as `Projects.judge` does."""
        for remark in change.remarks:
            if remark.field == "cwd":
                self.locate(remark.entry, remark.value)
        with self._lock:
            found = self._find_own(change)  # may have to wait, and till then what was withheld stays so
            if change.identity is not None:
                self.release(change.path, change.source)
            if found is None and self._units:
                found = self._find_inherited(change) if change.identity is not None else self._leave_out(change)
            if found is not None:
                self.add(change.path, change.source, found)
                if (
                    self.find(change.path) is None
                ):  # the rules changed meanwhile, and who looked for what they let in did not see it
                    self.release(change.path, change.source)
                    return self.decide(change)
        return found

    def _find_own(self, change: FileRows) -> Withheld | None:
        told = [fact.value for fact in change.facts if fact.field == "cwd" and fact.native_id is None]
        told += [self._places[entry] for entry in change.entries if entry in self._places] if self._places else []
        for cwd in told:
            if (verdict := self.projects.judge(cwd)) is not None:
                return _withhold(change, verdict.by, cwd, is_own=True)
        return None

    def _find_inherited(self, change: FileRows) -> Withheld | None:
        """Because of another file of the session; or, for a subagent, of the session that it works for, or of that one's."""
        assert change.identity is not None
        above, passed = (change.source, change.identity.native_id), set[tuple[str, str]]()
        origin: str | None = change.identity.origin
        parent = _find_parent(change)
        while above not in passed:
            passed.add(above)
            for unit in self._of_session.get(above, ()):
                other = self._units[unit]
                if origin in (None, other.origin) and other.is_own and self.find(unit) is not None:
                    return _withhold(change, os.fsdecode(other.by), other.cwd, is_own=False)
                parent = other.parent if parent is None else parent
            if parent is None:
                return None
            above, origin, parent = (change.source, parent), None, None
        return None

    def _leave_out(self, change: FileRows) -> Withheld | None:
        """Take out what is said of sessions of which nothing is kept. If nothing else is said, nothing of the unit is kept either."""
        about: Withheld | None = None
        kept = []
        for fact in change.facts:
            units = self._of_session.get((fact.source or change.source, fact.native_id or ""), ())
            why = next((why for unit in units if (why := self.find(unit)) is not None), None)
            if why is None:
                kept.append(fact)
            about = about or why
        change.facts = kept
        if about is None or kept or change.rows or change.remarks or not change.counted_from_start:
            return None
        return msgspec.structs.replace(about, is_own=False, parent=None)


def _find_parent(change: FileRows) -> str | None:
    """The session that a subagent works for."""
    told = {fact.field: fact.value for fact in change.facts if fact.native_id is None}
    return told.get("parent_id") if told.get("subagent") else None


def _withhold(change: FileRows, by: str, cwd: str, *, is_own: bool) -> Withheld:
    native_id, origin = ("", "") if change.identity is None else (change.identity.native_id, change.identity.origin)
    return Withheld(os.fsencode(by), cwd, native_id, origin, _find_parent(change), is_own)
