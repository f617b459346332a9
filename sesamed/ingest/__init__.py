"""From a path that may have changed to rows and a cursor in one commit."""
