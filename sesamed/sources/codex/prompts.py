"""What stands around what the person typed, in a prompt of theirs: an editor's context, rules that the client sends once more, and the text
of a stored prompt, of which only the arguments are theirs."""

import re
from typing import Final

from sesamed.model import record_key
from sesamed.sources.elements import inner

# What the editors' extension and the app put before a prompt ends with this heading.
REQUEST: Final = re.compile(r"\s*# [^\n]*\n(?s:.*?)^## My request for Codex:[ \t]*\n?", re.MULTILINE)
FRONT: Final = re.compile(r"\s*---\n((?:[^\n]*\n)*?)---(?:\n|$)")
# What spec-kit's prompts begin with: the arguments, in a fence. It goes on with this.
ARGUMENTS: Final = re.compile(r"\s*#+ User Input\s*```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
CONSIDER: Final = "You **MUST** consider the user input"
UNFILLED: Final = "$ARGUMENTS"
DESCRIPTION: Final = re.compile(r"^description:[ \t]*(.*)$", re.MULTILINE)
RULES: Final = ("INSTRUCTIONS", "user_instructions")  # the elements in which Codex sends the project's rules
SKILLS: Final = "\n## Skills\n"  # what it adds to them
LEAST_RULES: Final = 80  # characters: less may be what somebody says

Rules = tuple[int, int]  # how long they are, and a digest: the state keeps no texts


def find_rules(text: str) -> Rules | None:
    """The project's rules in a text of Codex's."""
    for tag in RULES:
        if rules := (inner(text, tag) or "").strip():
            rules = rules[: rules.rfind(SKILLS)].rstrip() if SKILLS in rules else rules
            return (len(rules), record_key("rules", rules)) if len(rules) >= LEAST_RULES else None
    return None


def request_of(text: str, rules: Rules | None) -> str:
    """A prompt without what an editor or a client put before it."""
    bare = text.lstrip()
    if rules is not None and rules[0] < len(bare) and record_key("rules", bare[: rules[0]]) == rules[1]:
        text = bare[rules[0] :].lstrip()
    match = REQUEST.match(text)
    return text[match.end() :] if match else text


def part_stored(text: str) -> tuple[str, str]:
    """What was typed of a prompt, and the text of the stored prompt that it stands in; none if it is not a stored one."""
    front = FRONT.match(text)
    body = text[front.end() :] if front else text
    given = ARGUMENTS.match(body)
    if given and body.startswith(CONSIDER, given.end() + _count_blanks(body, given.end())):
        return arguments_of(given), text
    if front and DESCRIPTION.search(front[1]):
        return "", text
    return text, ""


def arguments_of(given: re.Match[str]) -> str:
    """The arguments, if there are any."""
    return given[1].strip().removeprefix(UNFILLED)


def _count_blanks(text: str, begin: int) -> int:
    return len(text) - begin - len(text[begin:].lstrip())
