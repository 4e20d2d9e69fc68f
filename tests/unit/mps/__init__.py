"""Decisions of the MPS service."""
