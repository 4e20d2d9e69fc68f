"""Helpers for tests; imported by name, never from conftest."""
