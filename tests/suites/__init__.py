"""Behaviours that stand-ins and the real things are both held to."""
