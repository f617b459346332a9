"""Which name somebody means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store.reading import resolve
from sesamed.store.search.spelling import MOST_LETTERS, Ruler, distance
from sesamed.store.search.stems import LONGEST

WORDS = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=12).filter(
    lambda word: len(resolve.split_words(word)) == 1
)
JOINTS = st.text(st.sampled_from(" -_./:,!?\t"), min_size=1, max_size=3)
KNOWN = {
    1: "Confirm button refactor",
    2: "Simplify the Nix flakes",
    3: "simplify nix infrastructure",
    4: "Übersetzung prüfen",
    5: "部署 服务器",
    6: "???",
}


@given(st.lists(WORDS, min_size=1, max_size=5), st.data())
def test_case_and_joints_do_not_matter(words: list[str], data: st.DataObject) -> None:
    """A name is its words, whatever joins them, in any case."""
    name = " ".join(words)
    typed = "".join(word + data.draw(JOINTS) for word in words)
    assert resolve.find_same(typed, {1: name}) == [1]
    assert resolve.find_same(typed.upper(), {1: name.upper()}) == [1]


@given(st.text(max_size=40), st.dictionaries(st.integers(), st.text(max_size=40), max_size=5))
def test_any_text_is_answered(reference: str, known: dict[int, str]) -> None:
    """Nothing that is typed or named fails; what is the same is also alike; without a word nothing is meant."""
    same, alike = resolve.find_same(reference, known), resolve.find_like(reference, known)
    assert set(same) <= set(alike)
    assert resolve.split_words(reference) or not alike
    assert set(alike) <= known.keys()


@given(st.lists(WORDS, min_size=1, max_size=5), st.data())
def test_words_that_follow_each_other_are_found(words: list[str], data: st.DataObject) -> None:
    """Any run of a name's words means it."""
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    assert resolve.find_like("-".join(words[first : last + 1]), {1: " ".join(words), 2: "\0"}) == [1]


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("confirm-button-refactor", [1]),
        ("nix", [2, 3]),
        ("nix-flakes", [2]),
        ("refac", [1]),
        ("ref but", [1]),
        ("simplify flakes", [2]),
        ("confrim button", [1]),  # two letters swapped
        ("infrastrukture", [3]),
        ("ubersetzung", [4]),
        ("部署", [5]),
        ("nxi", []),  # short words are other words
        ("confirm nothing", []),
        ("???", []),
        ("", []),
    ],
)
def test_likeness(reference: str, found: list[int]) -> None:
    """Words in a row, then words anywhere or begun, then mistyped ones; the first kind that any name has counts."""
    assert resolve.find_like(reference, KNOWN) == found


@given(WORDS, WORDS, st.integers(0, 3))
def test_distance(one: str, other: str, limit: int) -> None:
    """It is 0 for the same only, the same both ways, and never more than the limit says."""
    found = distance(one, other, limit)
    assert found == distance(other, one, limit)
    assert found <= limit + 1
    assert (found == 0) == (one == other)


@given(WORDS, st.data())
def test_one_slip_is_one(word: str, data: st.DataObject) -> None:
    """A letter left out, put in or changed, or two swapped, is a distance of one."""
    at = data.draw(st.integers(0, len(word) - 1))
    for changed in (
        word[:at] + word[at + 1 :],
        word[:at] + "é" + word[at:],
        word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :],
    ):
        assert distance(word, changed, 2) <= 1


SHORT = st.text("abc", max_size=7)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("marsielle", "marseille", 1),
        ("abc", "abc", 0),
        ("abc", "", 3),
        ("ab", "ba", 1),
        ("ca", "abc", 3),
        ("kitten", "sitting", 3),
    ],
)
def test_distances(one: str, other: str, expected: int) -> None:
    """Swapped neighbours are one slip; nothing is changed twice."""
    assert distance(one, other, 9) == expected


@given(SHORT, SHORT)
def test_distances_are_those_of_the_table(one: str, other: str) -> None:
    """Cell by cell, of each beginning of the first word from all of the second one."""
    table = [list(range(len(other) + 1))]
    for row, letter in enumerate(one, 1):
        table.append([row])
        for column, against in enumerate(other, 1):
            ways = [table[row - 1][column] + 1, table[row][-1] + 1, table[row - 1][column - 1] + (letter != against)]
            if row > 1 and column > 1 and (letter, one[row - 2]) == (other[column - 2], against):
                ways.append(table[row - 2][column - 2] + 1)
            table[row].append(min(ways))
    far = [cells[-1] for cells in table]
    assert Ruler(one).measure_beginnings(other) == far


@given(
    st.text("abc", min_size=1, max_size=MOST_LETTERS),
    st.lists(st.text("abcé☃\ud800", min_size=1, max_size=LONGEST), unique=True),
    st.sampled_from([(1, 1), (3, 2), (5, 2)]),
)
def test_many_are_measured_as_one_by_one(word: str, others: list[str], bounds: tuple[int, int]) -> None:
    """Also those with characters that no word has."""
    shorter, most = bounds
    ruler = Ruler(word)
    nearest = {other: min(ruler.measure_beginnings(other)[-shorter - 1 :]) for other in others}
    expected = sorted((far, other) for other, far in nearest.items() if far <= most)
    assert sorted(ruler.find_near(others, shorter, most)) == expected


@given(st.integers(MOST_LETTERS - 2, MOST_LETTERS), st.data())
def test_long_words_side_by_side_leave_each_other_alone(length: int, data: st.DataObject) -> None:
    """Whatever is carried."""
    word = data.draw(st.sampled_from(["a" * length, "ab" * (length // 2), "b" + "a" * (length - 1)]))
    texts = st.text("ab", min_size=length - 1, max_size=length - 1) | st.sampled_from([word[1:], "b" * (length - 1)])
    others = data.draw(st.lists(texts, min_size=2))
    ruler = Ruler(word)
    nearest = [(min(ruler.measure_beginnings(other)[-6:]), other) for other in others]
    assert sorted(ruler.find_near(others, 5, 2)) == sorted((far, other) for far, other in nearest if far <= 2)


@given(SHORT, SHORT, st.integers(0, 3))
def test_a_bound_only_saves_work(one: str, other: str, most: int) -> None:
    """What is within it is exact, and it makes no difference which word is first."""
    exact = distance(one, other, 99)
    bounded = distance(one, other, most)
    assert bounded == exact if exact <= most else bounded > most
    assert distance(other, one, 99) == exact
    assert abs(len(one) - len(other)) <= exact <= max(len(one), len(other))
