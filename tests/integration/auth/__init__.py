"""The gate of the bus on a real nats-server, with reviews by the embedded API server."""
