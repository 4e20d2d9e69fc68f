"""What can go wrong between us and the bus; every caller's answer is to try again later."""

from __future__ import annotations


class BusError(Exception):
    """Anything the bus did not do for us."""


class LostError(BusError):
    """The connection ended, or an answer did not come in time."""


class MissingError(BusError):
    """The stream that should answer is not there (yet)."""


class RejectedError(BusError):
    """The server understood and said no; the text is its own."""
