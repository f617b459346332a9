"""Words for a time at the end of a question (`… last week`, `since monday`, `in april`): they say which sessions are meant, not what was
said there.

Only what can hardly be anything else counts: a whole form at the very end, outside of quotes, and not behind a word to which it belongs
(`a report for last week`, `every monday`). What is left of the question must still ask for something.
"""

import re
from collections import deque
from typing import Literal, NamedTuple

from sesamed.methods.days import MONTHS, NUMBERS, WEEKDAYS, normalize
from sesamed.methods.times import Clock, Span, describe, read_span
from sesamed.model import Answer, iso_or_none
from sesamed.sanitize import Line, Time
from sesamed.store.search import terms

MOST_WORDS = 6  # of a form: `since the 24th of january 2026`
ENDS = ".,;:!?)"
_WEEKDAY, _MONTH, _SHORT = "|".join(WEEKDAYS), "|".join(MONTHS), "|".join(name[:3] for name in MONTHS)
_NUMBER = rf"(?:[0-9]{{1,4}}|{'|'.join(NUMBERS)})"
_DAY, _YEAR = r"[0-3]?[0-9](?:st|nd|rd|th)?", r"[0-9]{4}"
ALONE = (
    "today",
    "yesterday",
    "(?:the )?day before yesterday",
    rf"last (?:{_WEEKDAY}|{_MONTH}|weekend)",
    "this weekend",
    "(?:this|last|past|the last|the past) (?:week|month|year)",
    rf"{_NUMBER} (?:day|week|month|year)s? ago",
    rf"(?:the )?(?:last|past) {_NUMBER} (?:minute|hour|day|week|month|year)s?",
    rf"(?:the )?{_DAY} (?:of )?(?:{_MONTH})(?: {_YEAR})?",
    rf"(?:{_MONTH}) {_DAY}(?: {_YEAR})?",
    rf"(?:{_MONTH}) {_YEAR}",
)
# A weekday alone may be any of them, and some months are verbs or names.
LED = (
    *ALONE,
    _WEEKDAY,
    _MONTH,
    "(?:the )?weekend",
    rf"{_DAY} (?:{_SHORT})(?: {_YEAR})?",
    rf"(?:{_SHORT}) {_DAY}(?: {_YEAR})?",
    r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?",
)
FORM = re.compile(
    rf"(?:(?P<lead>from|on|in|during|over|since|after|before|until|till) (?P<led>{'|'.join(LED)}))|(?P<alone>{'|'.join(ALONE)})"
)
# What stands behind one of these belongs to it.
BELONGS_TO = frozenset(
    """
    a about after an and are as at before between by called each every for in is last like named next no nor not of on or over past per
    since than that the this till to until vs was with
    """.split()
)


class TimeFilter(Answer, frozen=True, kw_only=True):
    """Words for a time at the end of a question: what they mean, and what became of them."""

    words: Line
    after: Time | None
    before: Time | None
    days: Line  # for people: 9-15 Nov
    effect: Literal["acts", "nothing", "words"]


class TimeWords(NamedTuple):
    """The question without its words for a time; the words; and the bounds that they are."""

    rest: str
    words: str
    after: str | None
    before: str | None
    days: str

    def told(self, effect: Literal["acts", "nothing", "words"]) -> TimeFilter:
        """As an answer says it."""
        return TimeFilter(words=self.words, after=self.after, before=self.before, days=self.days, effect=effect)


class Ending(NamedTuple):
    """A question up to its words for a time; the word that leads them, if any; and the words."""

    rest: str
    lead: str
    words: str


def find_ending(query: str) -> Ending | None:
    """The longest words for a time at the end of a question, if there are any that act."""
    text = terms.clean(query)
    last = deque(terms.TYPED.finditer(text), MOST_WORDS + 1)
    for count in range(min(MOST_WORDS, len(last)), 0, -1):
        typed = list(last)[-count:]
        if any(found["word"] is None for found in typed):
            continue
        form = FORM.fullmatch(normalize(text[typed[0].start() :].rstrip(f"{ENDS} ")))
        if form is None:
            continue
        before = last[-count - 1] if count < len(last) else None
        if before is not None and before[0].lower() in BELONGS_TO:
            return None
        rest = text[: typed[0].start()].rstrip(f"{ENDS}(- ")
        return Ending(rest, form["lead"] or "", form["led"] or form["alone"])
    return None


def read_ending(ending: Ending, clock: Clock) -> TimeWords | None:
    """What it means for whoever asks; None if no calendar has it."""
    try:
        bounded = _bound(read_span(ending.words, clock), ending.lead)
        if bounded is None:
            return None
        after, before = bounded
        words = f"{ending.lead} {ending.words}".lstrip()
        return TimeWords(ending.rest, words, iso_or_none(after), iso_or_none(before), describe(after, before, clock))
    except (ValueError, OverflowError, OSError):  # the last two, where a calendar has its ends
        return None


def _bound(span: Span, lead: str) -> tuple[int | None, int | None] | None:
    """From when on, and before when; None if that is always."""
    if lead in ("since", "after"):
        return span.begin_ms, None
    if lead == "before":
        return None, span.begin_ms
    if lead in ("until", "till"):
        return None if span.end_ms is None else (None, span.end_ms)
    return span.begin_ms, span.end_ms


def asks_for_something(ending: Ending) -> bool:
    """Whether what is left has a word to search for. One that only says what is to be left out has none."""
    return len(terms.parse(f"{ending.rest} {ending.words}").words) > len(terms.parse(ending.words).words)
