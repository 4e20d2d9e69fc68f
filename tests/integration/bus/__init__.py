"""The bus and a nats-server that is really there."""
