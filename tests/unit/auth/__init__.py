"""Keys, tokens and questions of the bus, without a server."""
