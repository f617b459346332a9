"""Questions: words to ranked sessions, with what matched."""
