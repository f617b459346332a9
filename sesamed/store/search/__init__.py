"""Queries: from words to ranked sessions, with what matched."""
