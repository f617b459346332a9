"""Links between documents lead somewhere, headings included."""

import re
from pathlib import Path

import pytest

from tests.support.documents import FENCED, PAGES, ROOT, read

LINK = re.compile(r"\]\(([^)\s]+)\)")
MORE = ("CHANGELOG.md",)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *MORE])
def test_links_lead_somewhere(page: str) -> None:
    """To files that are there, and to headings that they have."""
    here = ROOT / page
    for link in LINK.findall(FENCED.sub("", read(page))):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (here.parent / path).resolve() if path else here
        assert target.is_relative_to(ROOT), f"{page}: {link}"
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"


def test_every_page_is_found_from_the_readme() -> None:
    """By following links."""
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = LINK.findall(page.read_text(encoding="utf-8"))
        waiting += [
            (page.parent / link.partition("#")[0]).resolve() for link in links if not link.startswith(("https://", "#"))
        ]
    assert {ROOT / page for page in PAGES} - seen == {ROOT / "pi/README.md"}  # which is for who has only that directory
