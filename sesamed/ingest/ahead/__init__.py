"""Reads ahead: during a load a process of its own reads what the daemon writes next."""
