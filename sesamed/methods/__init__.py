"""The methods of the protocol, one module for each topic: parameters, result and handler together. `table` collects them."""
