"""What a session is called that nobody gave a name."""

import pytest

from sesamed.sources.names import session_name

SKILL = '<skill name="deploy" location="/s/SKILL.md">\nmany\nwords\n</skill>'
FILE = '<file name="/a.txt">\ncontent\n</file>'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("why does it fail?\nlog", "why does it fail?"),
        ("\n \n  why   does\tit fail?  ", "why does it fail?"),
        (f"{SKILL}\n\nship it", "ship it"),
        (f"{FILE}\n{FILE}\n{SKILL} compare", "compare"),
        ("```\n---\nfirst words", "first words"),
        (SKILL, ""),
        ("", ""),
        ("💾 — 如月家", "💾 — 如月家"),
        (f"see {FILE}", 'see <file name="/a.txt">'),
    ],
)
def test_a_name_is_the_first_line_that_a_person_wrote(text: str, name: str) -> None:
    """Without injected blocks, spaces made one."""
    assert session_name(text) == name


def test_a_long_name_is_cut_at_a_word() -> None:
    """At most 80 characters, with an ellipsis."""
    assert session_name("word " * 30) == "word " * 14 + "word…"
    assert session_name("x" * 81) == "x" * 79 + "…"
    assert session_name("x" * 80) == "x" * 80
