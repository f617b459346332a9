"""The README's picture shows what `sesamectl` prints."""

from docs import picture


def test_the_picture_is_of_today() -> None:
    """What the program prints about the demo's sessions is what the picture shows, to the letter and the colour."""
    assert picture.draw() == picture.PICTURE.read_text(encoding="utf-8"), "`python -m docs.picture` makes it anew"
