"""Forms of words in other languages than English, where they are told apart, and what is searched for them."""

from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store.search import forms
from sesamed.store.search.forms import IN_FRENCH, IN_GERMAN, find_stem, split_compound, tell_language
from sesamed.store.search.terms import MOST_SPLIT
from tests.support.tiny import Tiny, session, tiny

OTHER = "a quite different matter that goes on for a while"
FAMILIES = [
    "ошибка ошибки ошибок ошибке ошибками", "миграция миграции миграцию миграций миграциями", "очередь очереди очередей",
    "каталог каталога каталогов каталогах", "скрытая скрытые скрытого скрытыми", "вкладка вкладки вкладок",
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_forms_of_a_russian_word_have_one_stem(family: str) -> None:
    """Also where a vowel comes and goes; and all of them begin as they are looked for."""
    stems = {find_stem(word, None) for word in family.split()}
    assert len(stems) == 1
    (stem,) = stems
    assert stem is not None
    assert all(word.startswith(stem.begin) for word in family.split())


@given(st.text("абвеиклмнорстуьюяё", min_size=1, max_size=12))
def test_a_stem_is_a_beginning(word: str) -> None:
    """Otherwise no form of it would be found, not even itself."""
    stem = find_stem(word, None)
    assert stem is None or (word.startswith(stem.begin) and len(stem.begin) >= forms.LEAST_RUSSIAN)


def test_forms_of_a_german_word_have_one_stem() -> None:
    """In a question that is German; as written, and as Porter left it."""
    assert {find_stem(word, IN_GERMAN) for word in ("gebühr", "gebühren", "gebuhr")} == {forms.Stem("gebuhr", "gebuhr")}
    assert {find_stem(word, IN_GERMAN) for word in ("karte", "karten", "kart")} == {forms.Stem("kart", "kart")}
    assert find_stem("karten", None) is None
    assert find_stem("nach", IN_GERMAN) is None  # nacht
    assert find_stem("karten2", IN_GERMAN) is None


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Fehler beim Laden der Karten", IN_GERMAN),
        ("erreurs de la carte", IN_FRENCH),
        ("carte mémoire", IN_FRENCH),
        ("fehler des index", None),  # both have that word
        ("error while loading the cards", None),
        ("café in Zürich", None),
        ("disk usage du df", None),  # a command, and nothing else
        ("how to use du", None),
        ("compare le lt gt ge", None),
        ("translate strings en to de", None),
        ("le le", None),
        ("fermer les onglets", IN_FRENCH),
        ("la file est vide", IN_FRENCH),
    ],
)
def test_what_tells_a_language(question: str, language: forms.Language | None) -> None:
    """More letters and small words of one than of the other."""
    assert tell_language(question.casefold().split()) is language


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("lagerbestand", ["lager", "bestand"]),
        ("arbeitsspeicher", ["arbeit", "speicher"]),
        ("lagerort", []),  # nobody says the second one
        ("lagerx", []),
        ("lager-bestand", []),
        ("lager" * 20, []),
    ],
)
def test_the_parts_of_a_compound(word: str, parts: list[str]) -> None:
    """If both are known, whatever binds them."""
    assert split_compound(word, {"lager", "bestand", "arbeit", "speicher"}.__contains__) == parts


@pytest.fixture(scope="module")
def talks() -> Iterator[Tiny]:
    said = {
        "s0": "Вынес все ошибки в журнал",
        "s1": "Die Gebühren werden je Stunde berechnet",
        "s2": "La file est vide, chaque tâche attend",
        "s3": "Der Bestand im Lager stimmt",
    }
    with tiny(
        *(session(n, cwd=f"/{n}").user(text) for n, text in enumerate(said.values())), session(4).user(OTHER)
    ) as index:
        index.entitle("s4", "про вкладки")
        yield index


@pytest.mark.parametrize(
    ("question", "found", "missing"),
    [
        ("ошибок", ["s0"], []),
        ("вкладку", ["s4"], []),  # in a heading alone
        ("eine Gebühr", ["s1"], ["eine"]),
        ("Gebuhr", [], None),  # nothing says that it is German; it is a slip of nothing
        ("lagerbestand", ["s3"], ["lagerbestand"]),
        ("-ошибок Gebühren", ["s1"], []),
    ],
)
def test_forms_are_found(talks: Tiny, question: str, found: list[str], missing: list[str] | None) -> None:
    """As the word itself is, and highlighted; the parts of a compound are not the word."""
    hits = talks.ask(question).hits
    if missing is not None:
        assert [hit.session_id for hit in hits] == found
        assert hits[0].missing_words == missing


def test_small_words_of_french_tell_nothing(talks: Tiny) -> None:
    """In a French question that has others."""
    answered = talks.ask("la file d'attente est vide")
    assert [hit.session_id for hit in answered.hits] == ["s2"]
    assert answered.terms.dropped == ("la",)
    assert "la" in [term.word.text for term in talks.ask("la").terms.terms]


def test_a_command_that_is_small_in_french_is_searched(talks: Tiny) -> None:
    """Nothing else tells that language."""
    assert talks.ask("disk usage du df").terms.dropped == ()


def test_few_words_of_a_question_are_taken_apart(talks: Tiny) -> None:
    """To look up what each may be made of costs a hundred statements and more."""
    with mock.patch.object(forms, "split_compound", autospec=True, return_value=[]) as split:
        talks.ask(" ".join(f"unbekannt{letter * 20}" for letter in "abcdefghijkl"))
    assert split.call_count == MOST_SPLIT
