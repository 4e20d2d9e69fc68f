"""The agent with the other node services as processes, and a controller by hand."""
