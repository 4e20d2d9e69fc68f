"""Device plugin API v1beta1: api.proto and the stubs that `make proto` makes of it."""
