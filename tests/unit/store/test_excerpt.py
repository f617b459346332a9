"""What is highlighted is what matched."""

import re
import unicodedata
from itertools import product

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sesamed import sanitize
from sesamed.store import schema
from sesamed.store.ids import Kind
from sesamed.store.search.excerpt import BLANKS, SNIPPET_CHARACTERS, Excerpter, begin_of, find_place, one_line
from sesamed.store.search.terms import IndexTermMaker, Word
from sesamed.store.subwords import inner_words

CONNECTION = apsw.Connection(":memory:")
schema.create(CONNECTION)


def asked(words: list[str]) -> Excerpter:
    """The words of a question to an index that knows none of them."""
    maker = IndexTermMaker(CONNECTION)
    return Excerpter(CONNECTION, [maker.term(Word(word, is_phrase=True)) for word in words])


def stems_of(text: str) -> set[str]:
    """What the index keeps of a text."""
    maker = IndexTermMaker(CONNECTION)
    return {stem for part in (text, inner_words(Kind.USER, text)) for _, stem in maker.tokens(part)}


PIECES = [
    "alpha",
    "Beta",
    "running",
    "package.json",
    "é",
    "😀",
    "\n",
    "\t",
    "\x1b[31m",
    "\0",
    " ",
    "  ",
    "x" * 50,
    "-",
    "\u2028",
    "İ",
    "日本",
    "ﬁ",
    "toolName",
    "ToolKit",
    "tool_names",
    "name",
]
# What begins an escape sequence swallows what follows it: where one ends in the middle of a word, only the rest of that can be shown.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x1b\x90\x98\x9b\x9d\x9e\x9f")
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(LETTERS, max_size=5), max_size=60).map(" ".join)
WORDS = st.lists(
    st.sampled_from(
        ["alpha", "beta", "run", "package.json", "é", "日本", "json", "ﬁ", "İ", "x", "ToolName", "kit.tool", "kit"]
    ),
    max_size=5,
    unique=True,
)


@given(TEXTS, WORDS)
def test_highlights_are_ranges_of_code_points_that_matched(text: str, wanted: list[str]) -> None:
    """Whatever text and words are."""
    words = asked(wanted)
    excerpt = words.excerpt(text)
    stems = {stem for word in wanted for stem in stems_of(word)}
    assert len(excerpt.text) <= SNIPPET_CHARACTERS
    for start, end in excerpt.highlights:
        assert 0 <= start < end <= len(excerpt.text)
        assert stems_of(excerpt.text[start:end]) & stems
    assert excerpt.highlights == sorted(excerpt.highlights)


HIDDEN = st.text(st.sampled_from([chr(first) for first, _ in sanitize.HIDDEN])) | st.just(
    "\x1b[1m\r\n\x1b]0;a title\x07"
)


@given(st.lists(st.tuples(st.sampled_from(["alpha", "beta", "é😀", "\r\n"]), HIDDEN), max_size=60))
def test_highlights_point_right_whatever_is_hidden(pieces: list[tuple[str, str]]) -> None:
    """The words that matched are in the clean excerpt where its highlights say."""
    text = sanitize.clean_text(" ".join(f" {hidden} {word}" for word, hidden in pieces))  # as it is indexed
    excerpt = asked(["alpha"]).excerpt(text)
    assert sanitize.clean_line(excerpt.text) == " ".join(excerpt.text.split())
    assert {excerpt.text[start:end] for start, end in excerpt.highlights} <= {"alpha"}
    assert len(excerpt.highlights) == excerpt.text.count("alpha")


@given(TEXTS, WORDS)
def test_an_excerpt_has_no_control_characters(text: str, wanted: list[str]) -> None:
    """Nothing that a terminal would obey, and no line break."""
    excerpt = asked(wanted).excerpt(text)
    assert not any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in excerpt.text)


@given(TEXTS, WORDS)
def test_a_word_that_matched_is_in_the_excerpt(text: str, wanted: list[str]) -> None:
    """Unless it is a phrase, of which the parts may be far apart."""
    words = asked([word for word in wanted if "." not in word])
    found, missing = words.match({Kind.USER: text})
    assert sorted(found + missing) == sorted(word for word in wanted if "." not in word)
    assert bool(words.excerpt(text).highlights) == bool(found)


@given(TEXTS, WORDS, st.sampled_from([Kind.USER, Kind.CALL, Kind.RESULT]))
def test_matched_is_what_fts_says(text: str, wanted: list[str], kind: Kind) -> None:
    """A phrase needs its parts side by side, in the text or in the subwords that the index has of it."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE fts USING fts5(text, inner, tokenize='porter unicode61')")
    text = text.replace("\0", "\ufffd")
    connection.execute("INSERT INTO fts VALUES(?, ?)", (text, inner_words(kind, text)))
    terms = [IndexTermMaker(CONNECTION).term(Word(word)) for word in wanted]
    found, _ = Excerpter(CONNECTION, terms).match({kind: text})
    for term in terms:
        match = " OR ".join(pattern.match for pattern in term.wholes)
        hits = connection.execute("SELECT 1 FROM fts WHERE fts MATCH ?", (match,)).fetchall()
        assert bool(hits) == (term.word.text in found)


ENDINGS = """s ed ing y ies ied ying eed er or ate ation ational ator alize ization izer able ible ability ibility bly ly ally
    fully fulness ness ous ously iveness ivity ance ancy ence ency ical icity icate logy logi al ism ment e i"""


def test_what_a_stem_says_of_its_words() -> None:
    """Words are looked for by what they begin with."""
    beginnings = ["", "t", "a", "ey", "hop", "tab", "hopp", "sens", "relat", "gener", "possi", "x1"]
    words = map("".join, product(beginnings, ENDINGS.split(), ["", *ENDINGS.split()]))
    for word, stem in IndexTermMaker(CONNECTION).tokens(" ".join(words)):
        assert word.startswith(begin_of(stem))


@given(TEXTS, st.lists(st.sampled_from(["alpha", "run", "x", "name", "eyed", "toolnames"]), max_size=4, unique=True))
def test_looking_for_words_finds_what_reading_all_does(text: str, wanted: list[str]) -> None:
    """Where a text is ASCII they are looked for, and are not where it is not: a letter more changes nothing."""
    text = text.encode("ascii", "ignore").decode()[:150] + " runs eyeing"
    maker = IndexTermMaker(CONNECTION)
    terms = [maker.term(Word(word)) for word in wanted] + [maker.term(Word("ru", is_prefix=True))]
    sought, read = (Excerpter(CONNECTION, terms).match({Kind.USER: one}) for one in (text, text + " é"))
    assert sought == read
    shown, other = (Excerpter(CONNECTION, terms).excerpt(one) for one in (text, text + " é"))
    assert shown.highlights == other.highlights


@pytest.mark.parametrize(
    ("kind", "text", "is_matched"),
    [
        (Kind.USER, "the tool names of this", True),
        (Kind.CALL, "a tool_name", True),
        (Kind.CALL, "preToolNames", True),
        (Kind.RESULT, "a tool_name", True),
        (Kind.RESULT, "preToolNames", False),  # subwords of results are not indexed
        (Kind.USER, "preTool and nameOfIt", False),  # in the index, identifiers stand in their order
    ],
)
def test_an_identifier_is_matched_where_the_index_has_it(kind: Kind, text: str, is_matched: bool) -> None:
    """Its parts are also found as words of their own."""
    excerpter = Excerpter(CONNECTION, [IndexTermMaker(CONNECTION).term(Word("toolName"))])
    assert bool(excerpter.match({kind: text})[0]) == is_matched


def test_the_excerpt_is_where_most_words_are_close_together() -> None:
    """Not where the first one is."""
    text = "alpha " + "filler " * 200 + "alpha beta gamma" + " filler" * 200
    excerpt = asked(["alpha", "beta", "gamma"]).excerpt(text)
    assert [excerpt.text[start:end] for start, end in excerpt.highlights] == ["alpha", "beta", "gamma"]


def test_what_matches_is_in_the_middle_of_the_excerpt() -> None:
    """With as much before it as behind it; an ellipsis on each side where the text goes on, and whole words."""
    text = "filler " * 200 + "alpha beta" + " filler" * 200
    excerpt = asked(["alpha", "beta"]).excerpt(text)
    before, _, after = excerpt.text.partition("alpha beta")
    assert before.startswith("… filler filler")
    assert after.endswith("filler filler …")
    assert abs(len(before) - len(after)) < 20
    assert SNIPPET_CHARACTERS - 20 < len(excerpt.text) <= SNIPPET_CHARACTERS
    assert set(excerpt.text.split()) == {"…", "filler", "alpha", "beta"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  alpha \n\n" + " " * 300 + "✓ beta\t\n", "alpha ✓ beta"),
        ("x" * 500 + " alpha", "… " + "x" * (SNIPPET_CHARACTERS - 10) + " alpha"),
        ("alpha " + "x" * 500, "alpha " + "x" * (SNIPPET_CHARACTERS - 10) + " …"),
        ("日本" * 200 + "alpha", "… 本" + "日本" * 115 + "alpha"),
    ],
)
def test_blanks_are_one_and_words_are_whole(text: str, shown: str) -> None:
    """A line that is mostly blank has room for what stands behind; only a very long word is cut."""
    excerpt = asked(["alpha", "beta"]).excerpt(text)
    assert excerpt.text == shown
    assert [excerpt.text[begin:end] for begin, end in excerpt.highlights] == [w for w in ("alpha", "beta") if w in text]


@given(TEXTS, WORDS)
def test_the_place_of_an_excerpt_is_found_again(text: str, wanted: list[str]) -> None:
    """Although blanks are missing in it."""
    excerpt = asked(wanted).excerpt(text)
    place = find_place(text, excerpt.text)
    first = excerpt.text.strip(" …").partition(" ")[0]
    assert one_line(text)[place:].startswith(first) if first else place == -1


@pytest.mark.parametrize("text", ["", "nothing of it"])
def test_without_a_match_the_excerpt_is_the_beginning(text: str) -> None:
    """And nothing is highlighted."""
    assert asked(["alpha"]).excerpt(text) == (text, [])


def test_every_character_of_a_line_keeps_its_place() -> None:
    """The ranges would be wrong otherwise."""
    assert one_line("a\n\tb\x1b[31mc\u2028d😀") == "a  b [31mc d😀"


def test_of_a_prefix_the_words_that_begin_so_are_highlighted() -> None:
    """`conf*`: those, and no others."""
    excerpt = Excerpter(CONNECTION, [IndexTermMaker(CONNECTION).term(Word("conf", is_prefix=True))]).excerpt(
        "the configuration confers with an unconfirmed confession about cones"
    )
    found = [excerpt.text[start:end] for start, end in excerpt.highlights]
    assert found == ["configuration", "confers", "confession"]


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("the alpha beta gamma", True),
        ("beta alpha alpha beta gamma", True),
        ("alpha beta and gamma", False),
        ("alpha gamma beta gamma", False),
        ("gamma alpha beta", False),
        ("beta gamma alpha", False),
        ("alpha alpha gamma beta", False),
        ("alpha beta", False),
    ],
)
def test_a_phrase_stands_where_its_words_follow_each_other(text: str, stands: bool) -> None:
    """All of them in one place, in their order, up to its last word."""
    assert asked(["alpha beta gamma"]).match({Kind.USER: text}) == (
        (["alpha beta gamma"], []) if stands else ([], ["alpha beta gamma"])
    )


@given(st.lists(st.sampled_from(["ab", " ", "\n", "\t", "\u00a0", "c"]), max_size=12).map("".join))
def test_blanks_are_runs_of_them_and_all_but_single_spaces(text: str) -> None:
    """However the pattern is written."""
    found = [run.span() for run in BLANKS.finditer(text)]
    assert found == [run.span() for run in re.finditer(r"\s\s+|[^\S ]", text)]


@given(st.from_regex(r"[a-zA-Z0-9]{1,12}(ational|biliti|ied|ing|ies|ization|ness|ousli|y|ed|e)?", fullmatch=True))
@example("eyed")  # its stem is "ei"
@example("Stayed")
def test_a_word_is_found_where_its_letters_are(word: str) -> None:
    """A text that lacks them is not taken apart; one that has the word does not lack them."""
    assert asked([word]).match({Kind.USER: f"so {word} it is"})[0] == [word]
