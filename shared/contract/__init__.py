"""The contract on the bus: one table of buckets and streams, the messages, the names on nodes."""
