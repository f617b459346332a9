"""The client of sesamed: `sesamectl` for people and scripts, `sesamectl.client.Client` for programs.

Standard library only, and nothing of `sesamed`: a person waits for the interpreter's start more than for the answer.
"""
