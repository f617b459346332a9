"""The memory of what coding agents did: a daemon that indexes session transcripts as they are written."""

__version__ = "0.1.0"
