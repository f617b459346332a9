"""`sesamectl serve --http`: the daemon's methods for programs that cannot speak to a Unix socket. Imported by that command alone."""
