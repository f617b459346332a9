"""More than an answer has: page after page of what a question finds. With `--jsonl` no more than a page is in memory."""

from collections.abc import Callable
from typing import Any

from sesamectl import json_lines
from sesamectl.call import call_retrying
from sesamectl.client import Client
from sesamectl.flags import Arguments
from sesamectl.output import require_output
from sesamectl.reading import Reading


def go_on(
    ask: Callable[[dict[str, Any]], dict[str, Any]], answer: dict[str, Any], params: dict[str, Any], field: str
) -> dict[str, Any]:
    """The answer with what is on the following pages in this field, until there is as much as `--limit` says."""
    while answer.get("nextOffset") is not None and (left := params.get("limit", 0) - len(answer[field])) > 0:
        more = ask({**params, "limit": left, "offset": answer["nextOffset"]})
        answer |= {
            name: more[name] for name in ("total", "totalExact") if name in more
        }  # a later page has counted more
        answer["nextOffset"] = more.get("nextOffset") if more[field] else None  # sessions may have gone meanwhile
        answer[field] += more[field]
    return {**answer, "resultCount": len(answer[field])} if "resultCount" in answer else answer


def show_each(
    arguments: Arguments, ask: Callable[[Client, dict[str, Any]], dict[str, Any]], params: dict[str, Any], field: str
) -> None:
    """Print what is in this field of the answers: as much as `--limit` says, or else one page."""
    require_output()
    left = params.get("limit")
    while True:
        answer = call_retrying(arguments, lambda client, asked=params: ask(client, asked))  # type: ignore[misc]
        with Reading():
            found, following = list(answer[field]), answer.get("nextOffset")
        for one in found:
            print(json_lines.dumps(one))
        if left is None or following is None:
            return
        left -= len(found)
        if left <= 0 or not found:
            return
        params = {**params, "limit": left, "offset": following}
