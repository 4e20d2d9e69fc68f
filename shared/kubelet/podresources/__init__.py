"""Pod-resources API, by version."""
