"""Aider's history, from a few words: `AiderChat().starts().user("why?").answer("because")`, as Aider appends it."""

from pathlib import Path

FILE = ".aider.chat.history.md"
START = "2026-03-01 09:00:00"  # in the time zone of the machine


class AiderChat:
    """A project's history. Each method appends something and returns the history."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def starts(self, at: str = START, *, flags: str = "--model openai/fake") -> "AiderChat":
        """The program starts: another session."""
        self._add(f"\n# aider chat started at {at}\n\n")
        for line in (f"/home/me/bin/aider {flags}", "Aider v0.86.2", "Model: openai/fake with diff edit format"):
            self.says(line)
        return self

    def user(self, text: str) -> "AiderChat":
        """A prompt, or a command."""
        lines = "  \n#### ".join(text.splitlines() or ["<blank>"])
        return self._add(f"\n#### {lines}".rstrip() + "  \n")

    def answer(self, text: str) -> "AiderChat":
        """What the model says; the program tells right behind it what that cost."""
        return self._add(f"\n{text.strip()}\n\n").says("Tokens: 2.3k sent, 30 received.")

    def says(self, text: str) -> "AiderChat":
        """What the program says; it may have several lines."""
        return self._add(f"> {text.strip()}".rstrip() + "  \n")

    def edits(self, path: str, commit: str = "feat: wrens") -> "AiderChat":
        """An edit, and its commit."""
        return self.says(f"Applied edit to {path}").says(f"Commit 043a742 {commit}")

    def fails(self, error: str) -> "AiderChat":
        """An edit that does not fit."""
        return (
            self.says("The LLM did not conform to the edit format.")
            .says("https://aider.chat/docs/troubleshooting/edit-errors.html")
            .says(error)
        )

    def bytes(self) -> bytes:
        """The file."""
        return "".join(self._pieces).encode()

    def write(self, directory: Path) -> Path:
        """Put it into a project."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / FILE
        path.write_bytes(self.bytes())
        return path

    def _add(self, text: str) -> "AiderChat":
        self._pieces.append(text)
        return self
