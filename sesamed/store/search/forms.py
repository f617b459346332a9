# ruff: noqa: RUF001  (Cyrillic letters are meant)
"""What of a word is searched besides it in languages other than English, which is all that the tokenizer stems.

Two words are forms of one where the same is left of both without their endings: much less than Snowball knows, and as good on questions
(docs/decisions.md, 93). The index has what Porter left of its words: with an ending off both sides they come together all the same. Russian
is told by its letters, German and French by letters and small words that are none in English; an English question is searched as ever.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

CYRILLIC = re.compile("[\u0430-\u044f\u0451]+")
REFLEXIVE = re.compile("с[яь]$")
# Of participles and adjectives, of verbs, of nouns.
RUSSIAN = re.compile(
    "(?:(?:[иы]?вш|[ую]щ|нн|ем)?(?:[иы]ми|[ео]го|[ео]му|ее|[иы]е|ое|[еиыо]й|[еиыо]м|[иы]х|ую|юю|ая|яя)"
    "|[иыая]в|[иыая]вши|[иыаяеу]?л[аио]?|[иыаяеу]ть|ти|[иыаяе]н[аоы]?|нно|[еи]те|[еёиуюая]т|[еи]шь|[аяеиу]ет|у?ют|ую|ю"
    "|и?ями|ами|ией|и?ям|ием|и?ях|[ое]в|[еи]и|ем|[ао]м|ах|[иь][юяе]|[аеийоуыьюя])$"
)
# ошибка, ошибок: the vowel comes and goes.
FLEETING = re.compile("(?<=[бвгджзклмнпрстфхцчшщ])[оеё](?=к$)")
RUSSIAN_VOWEL = re.compile("[аеиоуыэюяё]")
GERMAN = re.compile("(?:ung|ungen|erin|erinnen|innen|ern|em|en|er|es|est|et|te|ten|e|n|s)$")
LEAST_RUSSIAN, LEAST_GERMAN = 3, 4  # letters that stay
LEAST_PART = 5  # letters of a part of a compound: with four, English ones as `paperwork` would be taken apart
MOST_LETTERS = 40  # of a compound that is taken apart
LINKS = ("", "s", "n", "en", "e")  # between two parts: Arbeit-s-speicher


class Language(NamedTuple):
    """One that a question may be in, and what tells it: words and letters that are not in English, nor names there."""

    words: frozenset[str]
    letters: frozenset[str]


IN_GERMAN = Language(
    frozenset(
        """
        aus auch auf bei beim das dem den der des ein eine einem einen einer eines für ist mit nach nicht sich sind und vom von wie wo zu
        zum zur über
        """.split()
    ),
    frozenset("äöüß"),
)
IN_FRENCH = Language(
    frozenset(
        """
        au aux avec ce dans de des du en est et la le les lors ne par pas pour que qui se sur un une à
        """.split()
    ),
    frozenset("àçèéêîôùûœ"),
)
TELLING = IN_GERMAN.words | IN_FRENCH.words
# Of a question with one of these nothing tells another language; those that are words in one of the two as well are left out.
ENGLISH = frozenset(
    """
    and are be been by can could did do does for from has have he his how if into is it its my not of our she should such that the their
    them then there these they this to we were what when where which who why with would you your
    """.split()
)
# Commands, codes and names in English as well, as `du` and `en`: one of them alone does not tell French.
ALSO_NAMES = frozenset("au aux ce d de du en est et l la le ne par pas pour que qui se sur un".split())
# Nobody looks for them in a French question. Words as `que` and `c'est` stay: they may be all that leads to a session in French.
SMALL_IN_FRENCH = frozenset("à au aux avec d dans de des du en et l la le les lors par pour sur un une".split())


class Stem(NamedTuple):
    """What forms of a word have in common, and how each of them begins."""

    key: str
    begin: str


def tell_language(words: Iterable[str]) -> Language | None:
    """The language of which more of the words of a question tell, in small letters, than of the other one."""
    said = frozenset(words)
    german, french = (
        sum(word in language.words or not language.letters.isdisjoint(word) for word in said)
        for language in (IN_GERMAN, IN_FRENCH)
    )
    if german == french or not said.isdisjoint(ENGLISH):
        return None
    if german > french:
        return IN_GERMAN
    return IN_FRENCH if french > 1 or said.isdisjoint(ALSO_NAMES) else None


def find_stem(word: str, language: Language | None) -> Stem | None:
    """The stem of a word in small letters, or of what the index has of one."""
    if CYRILLIC.fullmatch(word):
        return _find_russian(word)
    if language is not IN_GERMAN or word in language.words:
        return None
    key = _fold(word)
    if not (key.isascii() and key.isalpha()):
        return None
    for _ in range(2):  # Benutzer, Benutzerinnen
        key = key[:LEAST_GERMAN] + GERMAN.sub("", key[LEAST_GERMAN:])
    return Stem(key, key) if len(key) >= LEAST_GERMAN else None


def _find_russian(word: str) -> Stem | None:
    vowel = RUSSIAN_VOWEL.search(word)
    if vowel is None or len(word) <= LEAST_RUSSIAN:
        return None
    at = max(LEAST_RUSSIAN, vowel.end())
    key = word[:at] + RUSSIAN.sub("", REFLEXIVE.sub("", word[at:])).removesuffix("ь")
    if len(key) > LEAST_RUSSIAN + 1:
        key = FLEETING.sub("", key)
    return Stem(key, key[:-1] if key.endswith("к") and len(key) > LEAST_RUSSIAN else key)


def _fold(word: str) -> str:
    """Without marks, as the tokenizer has it."""
    return "".join(one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one))


def split_compound(word: str, is_known: Callable[[str], bool]) -> list[str]:
    """The two words that a word was put together from, if both are known; the longer the first one the better."""
    if not word.isalpha() or len(word) > MOST_LETTERS:
        return []
    for at in range(len(word) - LEAST_PART, LEAST_PART - 1, -1):
        if is_known(word[at:]):
            first = word[:at]
            for link in LINKS:
                part = first.removesuffix(link)
                if len(part) >= LEAST_PART and (not link or part != first) and is_known(part):
                    return [part, word[at:]]
    return []
