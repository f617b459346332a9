"""Secrets are found, what looks like them is left alone, and a mask stands in the place of what was found and of nothing else."""

from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import assume, given
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
    found = sum(secret[-4:] not in mask(text) for text, secret in SECRETS)
    assert found >= RECALL * len(SECRETS)


def test_of_500_texts_that_look_like_secrets_none_is_masked() -> None:
    """Hashes, ids, integrity, certificates, stand-ins, code about passwords."""
    assert [text for text in LOOKALIKES if mask(text) != text] == []


@given(texts, planted, texts)
def test_what_stands_around_a_secret_stays(before: str, secret: Planted, after: str) -> None:
    """On lines of its own it is masked as it is alone. Of those that are missed there, one in a hundred, some are found beside others."""
    assume(mask(secret.text) != secret.text)
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


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export HF_TOKEN={}", "h" + "f_TYrlywyZlaFflUdQUYAAITpeAcXHNFefzg"),
        ("SMTP_PASS={}", "QhXBl5dsQQxOXJCWPa1P"),
        ("Server=tcp:db.internal;User ID=app;Pwd={};Encrypt=true", "QhXBl5dsQQxOXJCWPa1P"),
        ("curl -u bob:{} https://ci.dev/job/7", "okqHucKIfI6e2jrUekiUf34Vgqb8ff29"),
        ("curl --user 'bob@team.dev:{}' https://ci.dev", "okqHucKIfI6e2jrUekiUf34Vgqb8ff29"),
        ('{{"auths":{{"registry.dev":{{"auth":"{}"}}}}}}', "c3ZjOm9rcUh1Y0tJZkk2ZTJqclVla2lVZjM0VmdxYjhmZjI5"),
        ("//registry.dev/:_auth={}", "c3ZjOkFnazBGUzUzNHE3Y3g1TWVZTGdFeDhsbA=="),
        ("machine git.dev login bob password {}", "7vibEYZ1ZHQZeA2b"),
    ],
)
def test_where_programs_keep_what_they_log_in_with(text: str, secret: str) -> None:
    """Command lines, connection strings, .netrc, and the files of Docker and npm."""
    masked = mask(text.format(secret))
    before, after = text.format("\0").split("\0")
    assert masked.startswith(f"{before}[masked:")
    assert masked.endswith(f"]{after}")


@pytest.mark.parametrize(
    "text",
    [
        "the password is asked for by src/forms/Login2Form7Fields.tsx",
        "password 3 of 5: aBcDeFgHiJkLmNoP",
        "sort -u bob:one-two-three-four-five-6",
        "docker run -u 1000:1000 image:sha256-0123456789abcdef0123456789abcdef",
        "auth: handleAuthorization2Request",
        "bypass=0123456789abcdef0123456789abcdef",
        "compass: QhXBl5dsQQxOXJCWPa1P",
        "h" + "f_hub_download_and_cache_models_locally",
        "$env:PWD=/home/bob/Work2/a1B2c3D4e5F6g7H8",
    ],
)
def test_what_stands_where_secrets_may_stand_is_left_alone(text: str) -> None:
    """Words that end as their names do, users of containers, options of other programs."""
    assert mask(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("DB_PASSWORD=Worker75&VMaC", "DB_PASSWORD=[masked:passwordvalue]"),
        ("GET /login?password=abc123XY&user=bob&x=1", "GET /login?password=[masked:passwordvalue]&user=bob&x=1"),
        ("password=abc123XY&amp;user=bob", "password=[masked:passwordvalue]&amp;user=bob"),
        ("PASSWORD=abc123XY& next", "PASSWORD=[masked:passwordvalue]& next"),
        ("PASSWORD=abc123XY&&ls", "PASSWORD=[masked:passwordvalue]&&ls"),
    ],
)
def test_a_password_is_masked_to_its_end(text: str, masked: str) -> None:
    """Unless what begins with the ampersand is the next thing: of an address, of a shell's line."""
    assert mask(text) == masked


def test_kinds_are_single_words() -> None:
    """In the full-text index, so that they are found by whoever looks for them, and by nobody else."""
    assert all(kind.isalpha() and kind.islower() for kind in ISSUED)


def test_a_private_key_that_is_cut_short_is_masked() -> None:
    """Its end is what a program's output often lacks."""
    line = "MIIEpAIBAAKCAQEA1c7J9v0q2ySxPpJm3nRkTqLw8bVhYfGdZeXuKoNiBaQsWtEr"
    text = "-----BEGIN RSA PRIVATE " + f"KEY-----\n{line}\n{line}\n[… 812 more characters"
    assert mask(text) == "[masked:privatekey]\n[… 812 more characters"


@given(st.sampled_from([secret for secret in SECRETS if secret.secret not in mask(secret.text)]), st.data())
def test_a_secret_is_not_cut_in_two(planted: Planted, data: st.DataObject) -> None:
    """What is too long ends before a secret that would be cut."""
    text = f"{'word ' * 400}\n{planted.text}\n{'word ' * 400}"
    at = text.find(planted.secret)
    end = data.draw(st.integers(at - 1, at + len(planted.secret) + 1))
    kept = text[: find_cut(text, end)]
    assert len(kept) <= end
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
