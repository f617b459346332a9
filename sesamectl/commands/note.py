"""`note`: what a person says about a session. The daemon keeps it; transcripts are not touched."""

from typing import Any

from sesamectl.call import call, wait_if_started
from sesamectl.client import Client
from sesamectl.flags import NOTES, TAGS, Arguments
from sesamectl.output import show
from sesamectl.render.sessions import noted
from sesamectl.resolve import identify, resolve


def run(arguments: Arguments) -> None:
    """Change what was given, and print all of it."""
    texts, tags = arguments.collect(NOTES), arguments.collect(TAGS)

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client)
        identity = identify(resolve(client, arguments.words[0]))
        if not (texts or tags):
            return client.call("get_session_meta", sessionId=identity)
        if tags:
            texts["tags"] = _change_tags(client.call("get_session_meta", sessionId=identity)["tags"] or [], **tags)
        return client.call("set_session_meta", sessionId=identity, **texts)

    show(call(arguments, question), noted, arguments)


def _change_tags(tags: list[str], tag: tuple[str, ...] = (), untag: tuple[str, ...] = ()) -> list[str]:
    return [one for one in (*tags, *tag) if one not in untag]
