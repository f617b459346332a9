"""What stands around what the person typed: the program adds elements to each prompt, and the time."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from sesamed.sources.elements import drop_elements, inner
from sesamed.sources.records import millis

BEGIN, END = "<user_query>", "</user_query>"
TIMESTAMP: Final = "timestamp"
# What the program writes into the person's name. Its own transcripts leave most of it out.
INJECTED: Final = tuple(
    "user_info project_layout rules always_applied_workspace_rules agent_requestable_workspace_rules user_rules agent_skills"
    " available_skills cloud_instructions cloud_task_instructions open_and_recently_viewed_files system_reminder system-reminder"
    " instructions_update mcp_instructions mcp_file_system mcp_file_system_servers git_status agent_transcripts cursor_rules_context"
    " attached_files system_notification task_notification agent_notification timestamp".split()
)
PICTURE: Final = "[Image]"  # what a transcript has in the place of one
REDACTED: Final = "[REDACTED]"  # a thought that nobody may read
MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()
# Thursday, Sep 24, 2026, 1:23 AM (UTC+8)
WHEN: Final = re.compile(
    r"\w+, (?P<month>\w{3})\w* (?P<day>\d{1,2}), (?P<year>\d{4}), (?P<hour>\d{1,2}):(?P<minute>\d\d)\s(?P<half>[AP])M"
    r" \((?:UTC|GMT)(?:(?P<hours>[+-]\d{1,2})(?::(?P<minutes>\d\d))?)?\)"
)
STAMP_CHARS: Final = 200  # as far as a time is looked for


def prompt_of(text: str) -> str:
    """What the person typed; empty if all of it is the program's."""
    begin, end = text.find(BEGIN), text.rfind(END)
    if 0 <= begin < end:
        text = text[begin + len(BEGIN) : end]
    elif "<" in text:
        for tag in INJECTED:
            text = drop_elements(text, tag)
    text = text.strip()
    return "" if text == PICTURE else text


def answer_of(text: str) -> str:
    """What the model said. A transcript has its thoughts behind it; those that nobody may read are only named."""
    end = len(text.rstrip())
    while text.endswith(REDACTED, 0, end):
        end -= len(REDACTED)
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end].strip()


def time_of(text: str) -> int | None:
    """When a prompt was sent, to the minute, if it says so."""
    told = inner(text[:STAMP_CHARS], TIMESTAMP)
    if told is None:
        return None
    when = WHEN.fullmatch(told.strip())
    return millis(told.strip()) if when is None else _moment(when)


def _moment(when: re.Match[str]) -> int | None:
    try:
        month = MONTHS.index(when["month"].lower()) + 1
        hour = int(when["hour"]) % 12 + (12 if when["half"] == "P" else 0)
        local = datetime(int(when["year"]), month, int(when["day"]), hour, int(when["minute"]), tzinfo=_zone(when))
    except ValueError:  # there is no such day
        return None
    return millis(round(local.astimezone(UTC).timestamp() * 1000))


def _zone(when: re.Match[str]) -> timezone:
    hours, minutes = int(when["hours"] or 0), int(when["minutes"] or 0)
    sign = -1 if (when["hours"] or "").startswith("-") else 1
    return timezone(timedelta(hours=hours, minutes=sign * minutes))
