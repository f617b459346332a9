"""What is decided of a unit while the rules of its project change."""

from pathlib import Path

from sesamed.ingest.project import Projects, Verdict
from sesamed.ingest.withholding import Withholding
from sesamed.model import Fact, Identity
from sesamed.store.rows import Cursor, FileRows, Signature


class _ChangedMeanwhile(Projects):
    """Another thread looks again, after somebody has changed the rules, while this one decides."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def judge(self, cwd: str) -> Verdict | None:
        verdict = super().judge(cwd)
        if self._file.read_bytes() == b"":
            self._file.write_text("*.md\n")
            self.refresh()
        return verdict


def test_what_is_allowed_meanwhile_is_kept(tmp_path: Path) -> None:
    """Who looked for what the new rules let in could not see yet that this one was to be left out."""
    (tmp_path / ".git").mkdir()
    file = tmp_path / ".sesameignore"
    file.touch()
    withholding = Withholding(_ChangedMeanwhile(file))
    change = FileRows(
        path=b"/s.jsonl",
        root="/",
        source="pi",
        source_version=1,
        signature=Signature(1, 1, 1, 1, 1),
        cursor=Cursor(),
        complete=True,
        identity=Identity(native_id="one", origin=""),
        facts=[Fact(field="cwd", value=str(tmp_path))],
    )
    assert withholding.decide(change) is None
    assert withholding.find(b"/s.jsonl") is None
    file.write_text("*\n")
    withholding.projects.refresh()
    assert withholding.decide(change) is not None
