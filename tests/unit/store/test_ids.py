"""Numbers of rows, and that nothing but `ids` knows how they are made."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store import ids
from sesamed.store.ids import Kind

SOURCES = Path(__file__).parents[3] / "sesamed"
HOME, DIGESTS = SOURCES / "store/ids.py", SOURCES / "model.py"

# In code: shifting or masking by one of the numbers, the mask itself, a digest of 63 bits. In SQL: the same, and kinds as numbers.
IN_CODE = (
    re.compile(r"(<<|>>) (21|24|3)$"),
    re.compile(r"& 7$"),
    re.compile(r" (0x1f{5}|2097151)$", re.IGNORECASE),
    re.compile(r">> 1$"),
)
IN_SQL = re.compile(
    r"(<<|>>) *\(?(21|24|3)\b|& *7\b|0x1f{5}|2097151|\bkind *(=|<>|!=|<|>|>=|<=|IN) *\(?\d|(& *7|kind\w*\W{1,3}) *< *4"
    r"|ORDER BY (\w\.)?created_ms, coalesce",
    re.IGNORECASE,
)


# A text without these has no traces: to take all code to pieces costs half a second.
SUSPECT = re.compile(r"(<<|>>)\s*\(?(1|21|24|3)\b|&\s*7\b|" + IN_SQL.pattern, re.IGNORECASE)


def traces(source: str) -> Iterator[str]:
    """Where a piece of code knows how rows are numbered."""
    if not SUSPECT.search(source):
        return
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in (tokenize.COMMENT, tokenize.NL)
    ]
    for at, token in enumerate(tokens):
        if token.type == tokenize.NUMBER:
            before = tokens[at - 1].string if at else ""
            text = f"{before} {token.string}"
            if any(pattern.search(text) for pattern in IN_CODE):
                yield text
        elif token.type == tokenize.STRING or token.type == getattr(tokenize, "FSTRING_MIDDLE", None):
            yield from (found[0] for found in IN_SQL.finditer(token.string))


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_only_one_module_knows_how_rows_are_numbered(path: Path) -> None:
    """Neither code nor SQL elsewhere has the numbers of bits, the masks, the kinds or the order of owners in it."""
    allowed = [">> 1"] if path == DIGESTS else []
    assert path == HOME or list(traces(path.read_text(encoding="utf-8"))) == allowed


@pytest.mark.parametrize(
    "code",
    [
        "file << 21 | position",
        "chunk>>24",
        "record & 0x1fffff",
        "record & 0x1FFFFF",
        "chunk & 7 < 4",
        "int.from_bytes(digest(), 'big') >> 1",
        "sql = 'SELECT rowid >> 24 FROM fts WHERE rowid & 7 < 4'",
        "sql = f'SELECT {x} FROM records r WHERE r.kind = 4'",
        "sql = 'WHERE kind <> 4'",
        "sql = 'WHERE kind IN (0, 1)'",
        "sql = 'SELECT id & 0x1fffff'",
        "sql = 'ORDER BY s.created_ms, coalesce(s.began_ms, s.created_ms)'",
    ],
)
def test_the_numbers_are_recognised(code: str) -> None:
    """The test above can fail."""
    assert list(traces(code))


@pytest.mark.parametrize(
    "code", ["size << 20", "hours = 24", "'at most 24 of 7'", "MOST = 3", "# file << 21", "x & 3000"]
)
def test_other_numbers_are_not(code: str) -> None:
    """Other numbers mean other things."""
    assert list(traces(code)) == []


FILES = st.integers(1, 1 << 30)
POSITIONS = st.integers(0, ids.LAST_POSITION)


@given(FILES, POSITIONS, st.sampled_from(Kind))
def test_a_number_names_file_position_and_kind(file: int, position: int, kind: Kind) -> None:
    """What was put into a number comes out of it, in Python and in SQL."""
    record = ids.record_at(file, position)
    chunk = ids.chunk_of(record, kind)
    assert ids.home_of(record) == (file, position)
    assert (ids.record_of(chunk), ids.kind_of(chunk)) == (record, kind)
    sql = f"""
        SELECT {ids.sql_record(":file", ":position")}, {ids.sql_file(":record")}, {ids.sql_position(":record")},
          {ids.sql_record_of(":chunk")}, {ids.sql_file_of(":chunk")}, {ids.sql_kind(":chunk")}, {ids.sql_is_message(":chunk")},
          {ids.sql_is_indexed(":chunk")}, {ids.sql_in_file(":record", ":file")}, {ids.sql_in_file(":record", ":file + 1")},
          {ids.sql_in_file(":record", ":file - 1")}, {ids.sql_in_record(":chunk", ":record")},
          {ids.sql_in_record(":chunk", ":record + 1")}, {ids.sql_in_record(":chunk", ":record - 1")}
    """
    values = {"file": file, "position": position, "record": record, "chunk": chunk}
    assert apsw.Connection(":memory:").execute(sql, values).fetchone() == (
        record, file, position, record, file, kind, kind < Kind.CALL, kind != Kind.UNINDEXED, 1, 0, 0, 1, 0, 0,
    )  # fmt: skip


@given(FILES, POSITIONS)
def test_ranges_hold_what_belongs_to_them(file: int, position: int) -> None:
    """The ranges of a file and of a record end where the next one's begin."""
    record = ids.record_at(file, position)
    first, last = ids.records_of(file)
    assert first <= record <= last
    assert ids.records_of(file + 1)[0] == last + 1
    first, last = ids.chunks_of(record)
    assert ids.chunks_of(record + 1)[0] == last + 1
    assert ids.chunks_of_file(file)[0] <= first <= last <= ids.chunks_of_file(file)[1]


def test_trailing_parts_of_a_path_are_a_range_of_keys() -> None:
    """`b/c.ts` finds `/a/b/c.ts`, and neither `/a/bb/c.ts` nor `/a/b/c.tsx`."""
    first, end = ids.path_key("b/c.ts"), ids.after_path_key(ids.path_key("b/c.ts"))
    found = [
        path
        for path in ("/a/b/c.ts", "/b/c.ts", "/a/bb/c.ts", "/a/b/c.tsx", "/a/b/d.ts")
        if first <= ids.path_key(path) < end
    ]
    assert found == ["/a/b/c.ts", "/b/c.ts"]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/a/b/c.ts", "c.ts/b/a/"),
        ("b/c.ts", "c.ts/b/"),
        ("./b/c.ts/", "c.ts/b/"),
        ("C:\\a\\b.ts", "b.ts/a/C:/"),
        ("C:/a\\b.ts", "b.ts/a/C:/"),
        ("\\\\server\\share\\b.ts", "b.ts/share/server/"),
        ("a\\b.ts", "b.ts/a/"),
        ("/a/b\\ c.ts", "b\\ c.ts/a/"),  # a blank that a shell would see so
        ("/", "/"),
    ],
)
def test_a_path_is_known_by_its_parts(path: str, key: str) -> None:
    """Those of Windows as well."""
    assert ids.path_key(path) == key


@pytest.mark.parametrize(
    ("key", "mended"),
    [
        ("c.ts/b/a/", "c.ts/b/a/"),
        ("C:\\a\\b.ts/p/home/", "b.ts/a/C:/"),
        ("C:\\a\\b.ts/C:\\p/", "b.ts/a/C:/"),
        ("b.ts/src/C:\\p/", "b.ts/src/p/C:/"),
        ("src\\b.ts/C:\\p/", "b.ts/src/p/C:/"),
        ("/", "/"),
    ],
)
def test_older_keys_of_windows_paths(key: str, mended: str) -> None:
    """They were one part, behind the session's directory."""
    assert ids.mend_path_key(key) == mended
