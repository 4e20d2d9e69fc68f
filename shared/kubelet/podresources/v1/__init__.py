"""Pod-resources API v1: api.proto and the stubs that `make proto` makes of it."""
