"""Names, and the texts that injected blocks were taken out of."""

import pytest

from sesamed.sources.pi_text import base_name, native_id, session_name, without_skills

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


def test_a_skill_in_front_is_shortened_to_its_name() -> None:
    """Its body is not what the person said; a file's is."""
    assert without_skills(f"{SKILL}\n\n{FILE}\nship it") == f"[skill deploy]\n\n{FILE}\nship it"
    assert without_skills(f" {SKILL}\n{SKILL}") == "[skill deploy]\n[skill deploy]"


@pytest.mark.parametrize("text", ["<skill", '<skill name="x">never closed', "<skillful> work", f"no {SKILL}", " a"])
def test_what_is_no_skill_block_stays(text: str) -> None:
    """Every character of it."""
    assert without_skills(text) == text


@pytest.mark.parametrize(
    ("path", "session"),
    [
        ("/a/2026-05-26T05-32-53-236Z_id.jsonl", "id"),
        ("C:\\a\\2026-05-26T05-32-53-236Z_id_1.jsonl", "id_1"),
        ("/a/notes_of_may.jsonl", "notes_of_may"),
        ("", ""),
    ],
)
def test_a_path_has_the_id_of_its_session(path: str, session: str) -> None:
    """In paths of any system."""
    assert native_id(base_name(path)) == session
