"""What is said of errors that others raise."""

from sesamed.errors import is_of_memory


def test_too_little_memory_is_seen_behind_and_among_other_errors() -> None:
    """Also where one of several was raised again while all of them were handled, so that each leads to the other."""
    one = ValueError("a")
    several = ExceptionGroup("b", [one, OSError("c")])
    one.__context__ = several
    assert not is_of_memory(several)
    assert not is_of_memory(one)
    assert not is_of_memory(None)
    several.exceptions[1].__context__ = MemoryError()
    assert is_of_memory(several)
    assert is_of_memory(one)
