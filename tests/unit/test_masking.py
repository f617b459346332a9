"""Secrets are found, what looks like them is left alone, and a mask stands in the place of what was found and of nothing else."""

from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.masking import ISSUED, find_cut, form_of, mask, mask_state
from sesamed.source import Source
from sesamed.sources.claude import Claude
from sesamed.sources.codex import Codex
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.secrets_set import Planted, make_lookalikes, make_secrets

SECRETS, LOOKALIKES = list(make_secrets()), list(make_lookalikes())
RECALL, PRECISION = 0.99, 1.0

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
planted = st.sampled_from(SECRETS)


def test_of_500_secrets_hardly_any_is_missed() -> None:
    """One in a hundred has no digit, or looks like a word by chance."""
    found = sum(secret not in mask(text) for text, secret in SECRETS)
    assert found >= RECALL * len(SECRETS)


def test_of_500_texts_that_look_like_secrets_none_is_masked() -> None:
    """Hashes, ids, integrity, certificates, stand-ins, code about passwords."""
    assert [text for text in LOOKALIKES if mask(text) != text] == []


@given(texts, planted, texts)
def test_what_stands_around_a_secret_stays(before: str, secret: Planted, after: str) -> None:
    """On lines of its own it is masked as it is alone."""
    assert mask(f"{before}\n{secret.text}\n{after}").startswith(f"{mask(before)}\n")
    assert mask(f"{before}\n{secret.text}\n{after}").endswith(f"\n{mask(after)}")
    assert mask(f"{before}\n{secret.text}\n{after}") == "\n".join(map(mask, (before, secret.text, after)))


@given(planted)
def test_what_is_masked_stays_as_it_is(secret: Planted) -> None:
    """An index that is carried over is masked again."""
    assert mask(mask(secret.text)) == mask(secret.text)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a, ok", "token [masked:githubtoken], ok"),
        ("\ufeffgh" + "p_16C7e42F292c6912E7710c838347Ae178B4a", "\ufeff[masked:githubtoken]"),
        ("中gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a中", "中[masked:githubtoken]中"),
        ("KEY=A\\nAK" + "IAUT4AZVMZQISYROM2\\nB", "KEY=A\\n[masked:awsaccesskey]\\nB"),
        ("DB_PASSWORD=opensesame", "DB_PASSWORD=[masked:passwordvalue]"),
        ("password: 'tr0ub4dor&3'", "password: '[masked:passwordvalue]'"),
        ("redis://:hunter22@cache:6379", "redis://:[masked:urlpassword]@cache:6379"),
        ("Authorization: Basic dXNlcjpodW50ZXIyMmFiYw==", "Authorization: Basic [masked:secretvalue]"),
        ("api_key: 9f8e7d6c5b4a39281706f5e4d3c2b1a0", "api_key: [masked:secretvalue]"),
        ("password: password2)", "password: password2)"),
        (
            "a.token=findX509OAuthError, b:{secret:rememberX509Credential2}",
            "a.token=findX509OAuthError, b:{secret:rememberX509Credential2}",
        ),
        ("password", "password"),
        ("", ""),
    ],
)
def test_the_mask_says_what_it_stands_for(text: str, masked: str) -> None:
    """And nothing of the secret."""
    assert mask(text) == masked


def test_kinds_are_single_words() -> None:
    """In the full-text index, so that they are found by whoever looks for them, and by nobody else."""
    assert all(kind.isalpha() and kind.islower() for kind in ISSUED)


def test_a_private_key_that_is_cut_short_is_masked() -> None:
    """Its end is what a program's output often lacks."""
    line = "MIIEpAIBAAKCAQEA1c7J9v0q2ySxPpJm3nRkTqLw8bVhYfGdZeXuKoNiBaQsWtEr"
    text = "-----BEGIN RSA PRIVATE " + f"KEY-----\n{line}\n{line}\n[… 812 more characters"
    assert mask(text) == "[masked:privatekey]\n[… 812 more characters"


@given(st.sampled_from([secret for secret in SECRETS if secret.secret not in mask(secret.text)]), st.integers(0, 4000))
def test_a_secret_is_not_cut_in_two(planted: Planted, end: int) -> None:
    """What is too long ends before a secret that would be cut."""
    text = f"{'word ' * 400}\n{planted.text}\n{'word ' * 400}"
    kept = text[: find_cut(text, end)]
    assert len(kept) <= end
    at = text.find(planted.secret)
    assert not at < len(kept) < at + len(planted.secret)


TOKEN = "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.mark.parametrize(
    ("source", "session"),
    [
        (Claude(), ClaudeSession(agent="a1").user("Warmup").tool("Bash", {"command": f"export T={TOKEN}"}, "")),
        (Codex(), CodexSession().said("user", f"<tomorrow>{TOKEN}")),
    ],
    ids=["claude", "codex"],
)
def test_what_a_source_holds_back_is_masked(source: Source[Any], session: ClaudeSession | CodexSession) -> None:
    """A line of a subagent that may only be warmed up, a text that may not be a prompt: they are stored with the cursor."""
    state, _ = source.begin(PurePath(session.file_name))
    for line in session.lines():
        state, _ = source.step(state, line)
    after = mask_state(source.freeze(state))
    assert after != source.freeze(state)
    assert mask_state(after) == after
    assert TOKEN in repr(state)
    assert TOKEN not in repr(source.thaw(after))


def test_rules_are_part_of_an_indexs_form() -> None:
    """But where nothing is masked."""
    assert form_of("keep") == "keep"
    assert form_of("mask").startswith("mask ")
    assert form_of("drop") != form_of("mask")
