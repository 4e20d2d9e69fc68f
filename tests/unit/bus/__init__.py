"""The pure parts of the bus."""
