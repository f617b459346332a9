"""The way in: a path that may have changed becomes rows and a cursor in one commit."""
