"""The controller against an API server and a bus that are really there."""
