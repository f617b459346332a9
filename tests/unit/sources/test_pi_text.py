"""The texts that injected blocks were taken out of, and the names of files."""

import pytest

from sesamed.sources.pi import without_references, without_skills
from sesamed.sources.pi.lines import base_name, native_id

SKILL = '<skill name="deploy" location="/s/SKILL.md">\nmany\nwords\n</skill>'
FILE = '<file name="/a.txt">\ncontent\n</file>'


def test_a_skill_in_front_is_shortened_to_its_name() -> None:
    """Its body is not what the person said; a file's is."""
    assert without_skills(f"{SKILL}\n\n{FILE}\nship it") == f"[skill deploy]\n\n{FILE}\nship it"
    assert without_skills(f" {SKILL}\n{SKILL}") == "[skill deploy]\n[skill deploy]"


BLOCK = '\n\n<sesame-reference ids=["019e"]>\n@@plum is the past session "Plum"\n> pruned\n</sesame-reference>'


def test_what_references_mean_is_not_what_the_person_said() -> None:
    """It stands behind the prompt when the model is at work, quoted from other sessions."""
    assert without_references(f"see @@plum{BLOCK}") == "see @@plum"
    assert without_references(f"a{BLOCK}{BLOCK}") == f"a{BLOCK}"  # one that was pasted


@pytest.mark.parametrize("text", ["", "a", f"{BLOCK} and more", BLOCK.removeprefix("\n"), "a</sesame-reference>"])
def test_other_prompts_stay_as_they_are(text: str) -> None:
    """Whatever is like it."""
    assert without_references(text) == text


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
