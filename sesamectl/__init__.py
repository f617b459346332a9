"""The client of sesamed: `sesamectl` for people and scripts, `sesamectl.client.Client` for programs.

Standard library only, and nothing of `sesamed`: a person waits for the interpreter's start more than for the answer.
"""

__version__ = "0.1.0"  # the daemon's as well; a test holds them together
