"""What can be asked of the daemon, one module a topic: what a method takes, what it gives, and how it is served. `table` lists them."""
