"""Session memory: a model writes a name, a summary, tags and recall words of a session. The model is behind a command that the person
configured; what it is sent has been masked by the daemon.
"""
