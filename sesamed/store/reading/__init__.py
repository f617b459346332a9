"""Reading sessions: lists, pages of messages, which one is meant."""
