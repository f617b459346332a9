"""Names that the file system takes for one. On macOS neither case nor the way in which letters are composed tells them apart, so an
agent may write down a directory otherwise than a person types it.
"""

import sys
import unicodedata

FOLDS = sys.platform == "darwin"  # APFS by default. A volume may be otherwise, and then two names of it count as one


def fold(path: str) -> str:
    """What all spellings of a path have in common."""
    return (
        path
        if path.isascii() and path.islower()
        else unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
    )


def fold_here(path: str) -> str:
    """The same, where the file system of this machine takes them for one; else the path itself."""
    return fold(path) if FOLDS else path
