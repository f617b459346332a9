"""Elements within a text, in the manner of XML: what programs put around and beside what a person typed. Each text is looked at once."""


def inner(text: str, tag: str) -> str | None:
    """The content of the first element of this name, None if there is none."""
    _, begin, rest = text.partition(f"<{tag}>")
    end = rest.find(f"</{tag}>")
    return rest[:end] if begin and end >= 0 else None


def drop_elements(text: str, tag: str) -> str:
    """The text without the elements of this name. (A pattern would look at the rest of the text again for each one that is not closed.)"""
    kept, at, seen = list[str](), 0, 0
    while (start := text.find(f"<{tag}", seen)) >= 0:
        seen = start + len(tag) + 1
        if text[seen : seen + 1] not in (">", " ", "\n", "\t"):
            continue  # the beginning of another name
        if (end := text.find(f"</{tag}>", seen)) < 0:
            break
        kept.append(text[at:start])
        at = seen = end + len(tag) + 3
    return "".join([*kept, text[at:]])
