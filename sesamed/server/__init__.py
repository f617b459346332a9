"""The way out: a socket, lines, requests, answers."""
