"""Everything that changes the index, in transactions."""
