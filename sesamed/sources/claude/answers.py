"""Answers of the model's that later lines replace: which ones, by what is remembered of the last few."""

from zlib import crc32

from sesamed.model import Message, Operation, Undone
from sesamed.sources.claude.facts import Step
from sesamed.sources.claude.lines import Line
from sesamed.sources.claude.state import ANSWERS, Answer, ClaudeState, changed
from sesamed.sources.keys import encoded


def replacing(state: ClaudeState, line: Line, operations: list[Operation]) -> Step:
    """The same, with what these answers replace taken back: some versions wrote a text again as it grew, or say what it supersedes."""
    gone = [
        Undone(key=answer.key, alone=True) for answer in state.answers if answer.entry in (line.supersedes_uuids or ())
    ]
    answers = [answer for answer in state.answers if answer.entry not in (line.supersedes_uuids or ())]
    name = None if line.message is None else line.message.id
    for new in [operation for operation in operations if isinstance(operation, Message)]:
        shorter = [answer for answer in answers if name and answer.message == name and grew(answer, new.text)]
        gone += [Undone(key=answer.key, alone=True) for answer in shorter]
        known = Answer(new.key, new.entry, name, len(new.text), crc32(encoded(new.text)))
        answers = [answer for answer in answers if answer not in shorter and answer.key != new.key] + [known]
    if len(answers) == len(state.answers) and not operations:
        return state, operations
    return changed(state, answers=tuple(answers[-ANSWERS:])), operations + gone


def grew(answer: Answer, text: str) -> bool:
    """Whether the text is this answer and more."""
    return len(text) > answer.length and crc32(encoded(text[: answer.length])) == answer.checksum
