"""`--jsonl`: what a question finds, a line of JSON each, page after page. No more than a page is in memory."""

from collections.abc import Callable
from typing import Any

from sesamectl import json_lines
from sesamectl.call import call_retrying
from sesamectl.client import Client
from sesamectl.flags import Arguments
from sesamectl.output import require_output


def show_each(
    arguments: Arguments, ask: Callable[[Client, dict[str, Any]], dict[str, Any]], params: dict[str, Any], field: str
) -> None:
    """Print what is in this field of the answers: as much as `--limit` says, or else one page."""
    require_output()
    left = params.get("limit")
    while True:
        answer = call_retrying(arguments, lambda client, asked=params: ask(client, asked))  # type: ignore[misc]
        for one in answer[field]:
            print(json_lines.dumps(one))
        if left is None or answer.get("nextOffset") is None:
            return
        left -= len(answer[field])
        if left <= 0 or not answer[field]:
            return
        params = {**params, "limit": left, "offset": answer["nextOffset"]}
