"""Answers beside the daemon: while several wait, a second process answers searches, on another core."""
