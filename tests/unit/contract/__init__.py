"""The contract on the bus."""
