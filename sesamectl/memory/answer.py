"""What a model answered, as parameters of set_session_meta, or what is wrong with it."""

import json
import math
from typing import Any, NamedTuple

from sesamectl.render import clean

MAX_NAME, MAX_TEXT, MAX_WORDS, MAX_WORD = 200, 8000, 100, 200
TEXTS = {"name": MAX_NAME, "summary": MAX_TEXT}
OPTIONAL = {"description": MAX_TEXT}
LISTS = ("tags", "recallWords")
MAX_BRACES = 20  # that are tried as the beginning of an object
PARAMETER = {"name": "title"}  # where set_session_meta calls a field otherwise


class AnswerError(Exception):
    """The answer is not what was asked for."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class Said(NamedTuple):
    """What a model said, and what that cost in dollars, if the command tells."""

    text: str
    cost_usd: float | None


def read_output(output: str) -> Said:
    """What a command printed: the answer, or an object with it and what it cost, as some print as JSON."""
    try:
        found = json.loads(output)
    except (ValueError, RecursionError):
        return Said(output, None)
    if not isinstance(found, dict) or not isinstance(found.get("result"), str):
        return Said(output, None)
    cost = found.get("total_cost_usd")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf:
        cost = None
    return Said(found["result"], cost)


def parse_answer(output: str) -> dict[str, Any]:
    """The parameters. Raises AnswerError."""
    answer = _find_object(output)
    errors = [error for name in (*TEXTS, *OPTIONAL) if (error := _check_text(answer, name))]
    errors += [error for name in LISTS if (error := _check_list(answer, name))]
    if errors:
        raise AnswerError(errors)
    texts = {PARAMETER.get(name, name): answer[name].strip() for name in (*TEXTS, *OPTIONAL) if answer.get(name)}
    return {**texts, **{name: [word.strip() for word in answer[name] if clean(word).strip()] for name in LISTS}}


def _find_object(output: str) -> dict[str, Any]:
    """The outermost JSON object: models like to say something before it, and to put a fence around it."""
    why = "there is no JSON object in it"
    begin, decoder = output.find("{"), json.JSONDecoder(parse_int=float)
    for _ in range(MAX_BRACES):
        if begin < 0:
            break
        try:
            found, _ = decoder.raw_decode(output, begin)
        except RecursionError:
            raise AnswerError(["the JSON object is nested too deeply"]) from None
        except ValueError as error:
            why = f"the JSON object cannot be read: {error}" if begin == output.find("{") else why
        else:
            assert isinstance(found, dict)  # it begins with a brace
            return {name: _mend(value) for name, value in found.items()}
        begin = output.find("{", begin + 1)
    raise AnswerError([why])


def _mend(value: Any) -> Any:
    """Texts without halves of surrogate pairs, which models leave where they cut."""
    if isinstance(value, list):
        return [_mend(each) for each in value]
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else value


def _check_text(answer: dict[str, Any], name: str) -> str | None:
    value = answer.get(name)
    if name in OPTIONAL and value is None:
        return None
    if not isinstance(value, str):
        return f'"{name}" must be a text'
    limit = TEXTS.get(name) or OPTIONAL[name]
    if len(value) > limit:
        return f'"{name}" has {len(value)} characters, and at most {limit} are allowed'
    if name in TEXTS and not clean(value).strip():
        return f'"{name}" must not be empty'
    return None


def _check_list(answer: dict[str, Any], name: str) -> str | None:
    value = answer.get(name)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return f'"{name}" must be a list of texts'
    if not 1 <= len(value) <= MAX_WORDS:
        return f'"{name}" has {len(value)} entries; 1 to {MAX_WORDS} are allowed'
    if not any(clean(word).strip() for word in value):
        return f'"{name}" must not be empty'
    if any(len(word) > MAX_WORD for word in value):
        return f'an entry of "{name}" has more than {MAX_WORD} characters'
    return None
