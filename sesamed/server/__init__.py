"""The socket, its connections, and JSON-RPC on them. What the methods do is in `sesamed.methods`."""
