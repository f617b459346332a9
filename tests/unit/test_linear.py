"""Texts that others wrote are looked at in linear time: while a pattern runs, nobody else is answered.

Each text would take minutes with a pattern that is quadratic on it; all of these once had one that was, or look like it. Nothing is
timed: such a test would simply not end.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from sesamectl.memory.prompt import close
from sesamed.calls import find_touched, strip_quoted
from sesamed.exclusion import Ignored
from sesamed.masking import mask
from sesamed.methods.time_words import find_ending
from sesamed.methods.times import Clock, list_known, read_span
from sesamed.sanitize import clean_text
from sesamed.sources.aider import lines as aider
from sesamed.sources.aider.lines import AiderState
from sesamed.sources.claude.records import prompt_name, prompt_of, summary_of
from sesamed.sources.cline import panel, transcript
from sesamed.sources.codex.state import RANDOM
from sesamed.sources.copilot.workspace import read_workspace
from sesamed.sources.crush import records as crush
from sesamed.sources.cursor import prompts as cursor
from sesamed.sources.cursor.chat import strip_frame
from sesamed.sources.cursor.text import list_told
from sesamed.sources.droid import records as droid
from sesamed.sources.names import says_something, session_name
from sesamed.sources.openclaw import prompts as openclaw
from sesamed.sources.qwen.lines import output_of_shell
from sesamed.store.ids import Kind
from sesamed.store.subwords import inner_words

CHARACTERS = 1 << 17


def read_output(pieces: Iterable[str]) -> object:
    """What Cline's panel shows of a command that prints these."""
    shown = panel.Panel("s", None)
    shown.take(panel.Line(type="say", say="command", text="make"))
    for piece in pieces:
        shown.take(panel.Line(type="say", say="command_output", text=piece))
    return shown.operations()


def read_history(lines: Iterable[str]) -> object:
    """What Aider's history with these lines says."""
    state = AiderState(session="s")
    for line in lines:
        state, _ = aider.read_line(state, line)
    return aider.flush(state)


def look_at_time(text: str) -> object:
    """What is known of it, if it is none."""
    with suppress(ValueError):
        return read_span(text, Clock(0))
    return list_known(text)


LOOKS: dict[str, tuple[Callable[[str], object], str]] = {
    "subwords": (lambda text: inner_words(Kind.USER, f"漢 {text}"), "a a0 <a"),
    "clean": (clean_text, "\x9d \x90 \x1b] \x1b[ \x9b0"),
    "summary": (summary_of, "\n <system-reminder> <system-reminder><tools-used-before-summary>"),
    "prompt": (prompt_of, "\n <system-reminder>"),
    "prompt's name": (lambda text: prompt_name(f"Implement{text}x", f"Implement{text}x"), "\n"),
    "name": (session_name, "\n <a> <a ` ~ ```\n"),
    "one element's name": (lambda text: session_name("<" + text * 4), "a a- -"),
    "an element without end": (lambda text: session_name(f"<{text[: CHARACTERS // 2]}>{text}"), "a a-"),
    "says": (says_something, "\n <a> <a"),
    "secrets": (
        mask,
        "x1 x1/ bcdfg1- password= password=' PASSWORD= ://a:b@ @ secret=bcdfgh1 eyJbcdf1. = 1//0 A1B2C3D4",
    ),
    "web tokens": (lambda text: mask(text * 8), "-eyJbcdf1"),
    "private keys": (lambda text: mask(text.replace("_", " ")), "-----BEGIN_PRIVATE_KEY-----"),
    "Aider's question": (
        lambda text: read_history(f"#### {line}  " for line in text.replace("_", " ").split("\n")),
        "(Y)es/(N)o ]:_ ]:_a [ a",
    ),
    "Aider's history": (
        lambda text: read_history(text.replace("_", " ").split("\n")),
        "\n \n\n \n>_ \n>_a__ \n####_ \n####_a__ \na a__",
    ),
    "command": (strip_quoted, "<<a\n <<a <<'a' <<a\nb\n ' \" \\ `"),
    "substitutions": (lambda text: strip_quoted(f'"{text * 4}"'), "$( ` $(`"),
    "diff": (lambda text: list(find_touched({"patch": f"--- {text}\n"}, None, "")), "a a/ \t --- +++"),
    "rules": (
        lambda text: Ignored(text.replace("_", " ") + "]").holds("a", is_directory=False),
        "_ \\_ [ [: [[: [[:a [[:a:",
    ),
    "Cline's prompt": (
        lambda text: transcript.prompt_of(text.replace("_of", " ") * 8),
        '\n <user_input_of <user_command_of <user_command_ofslash=" <mode_notice_of',
    ),
    "Cline's directory": (
        lambda text: panel.DIRECTORY.search(text.replace("_", " ") * 4),
        "\n #_Current_Working_Directory_( #_Current_Workspace_Directory_(a",
    ),
    "Cline's output": (lambda text: read_output([text[: CHARACTERS // 8]] * 5000), "a"),
    "Copilot's description": (lambda text: read_workspace("s", f"id: a\nname: |\n{text}".encode()), "\n \t\n \t\ta\n"),
    "Crush's output": (
        lambda text: (
            crush.DIRECTORY.sub("", text.replace("_", " ") * 8),
            crush.EXIT.search(text.replace("_", " ") * 8),
        ),
        "\n \n\n \n\n<cwd> \n\n<cwd>x <cwd> \n\n<cwd></cwd> \nExit_code_1 1",
    ),
    "Cursor's prompt": (
        lambda text: cursor.prompt_of(text.replace("+", " ") * 8),
        "\n <user_query> </user_query> <rules+ <rules> </rules> <rules+a <system-reminder> <timestamp>",
    ),
    "Cursor's text": (
        lambda text: list(list_told(f"assistant:\n[Tool call] a\n  b: c\n{text.replace('+', ' ') * 8}")),
        "\n user: \nuser:\n \nassistant:\n \nassistant:\n[Tool+call]+a\n++b:+c\n++ [Thinking]\n++ ++x\n a:a:",
    ),
    "Cursor's answer": (lambda text: cursor.answer_of(text * 8), "[REDACTED] [REDACTED]\n \n"),
    "Cursor's output": (
        lambda text: strip_frame(f"Exit code: 1\n\nCommand output:\n\n```\n{text.replace('_', ' ') * 8}"),
        "\n ``` \n```\n\nCommand_ \n```\n",
    ),
    "Droid's prompt": (
        lambda text: droid.prompt_of(f"<system-reminder>{text.replace('_', ' ') * 8}</system-reminder>{text}"),
        "\n <skill <skill_ <skill> <skill_> <system-reminder> </system-reminder>",
    ),
    "OpenClaw's prompt": (
        lambda text: openclaw.prompt_of(text.replace("_", " ") * 8),
        (
            "\n a\n_ a_(untrusted a_(untrusted): a_(untrusted):\n a_(untrusted):\nb\n\n a_(untrusted):\n```json\n System:_[ System:_[\n\n"
            " System:_[a_(untrusted [Subagent_Context] \n[Subagent_Task] \n[message_id:_a \n[message_id:_a]\n"
            " x\n\nUntrusted_context_(metadata"
        ),
    ),
    "OpenClaw's answer": (
        lambda text: openclaw.answer_of(text.replace("_", " ") * 4),
        "[[ [[reply_to:_ [[reply_to:_[[",
    ),
    "Qwen's output": (
        lambda text: output_of_shell(f"Command: a\nDirectory: b\nOutput: {text.replace('_', ' ')}"),
        "\nError:_ \nExit_Code:_ \nDirectory:_\nOutput:_\nError:_\nExit_Code:_\nx",
    ),
    "time": (lambda text: look_at_time(text.replace("_", " ")), "last_ 3_ the_ ,_ - 1 2026- a_ day_before_"),
    "time at the end": (
        lambda text: (find_ending(f"{text.replace('_', ' ')} last week"), find_ending(text.replace("_", " "))),
        'last_ since_ since_monday_ the_ 3_ ( - " "_ "a"_ a_"',
    ),
    "a prompt of ours": (lambda text: close(f"{text} "), "@ a@ </session </"),
    "id": (lambda text: RANDOM.search(text), "a A"),
}
CASES = [(name, token) for name, (_, tokens) in LOOKS.items() for token in tokens.split(" ")]


@pytest.mark.timeout(20)  # of which a few hundredths are needed
@pytest.mark.parametrize(("name", "token"), CASES)
def test_any_text_is_looked_at_in_linear_time(name: str, token: str) -> None:
    look, _ = LOOKS[name]
    look(token * (CHARACTERS // len(token)))
