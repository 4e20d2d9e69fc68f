"""The keys of one installation: how they are called in its Secret and in the server's environment.

`slicewire bus keys` makes them once. Seeds are mounted in the controller only; public keys reach
the server as variables, so that its configuration is the same everywhere.
"""

from __future__ import annotations

import enum


class Key(enum.StrEnum):
    """What each key is for."""

    ISSUER = "issuer"  # signs who may enter; whoever holds its seed is everybody
    CURVE = "curve"  # seals what the server and the controller say to each other
    GATE = "gate"  # user that hears the server's questions
    CONTROLLER = "controller"  # user of the controller
    COMMAND = "command"  # user of people's commands

    @property
    def seed_file(self) -> str:
        """Where the seed stands in the Secret."""
        return f"{self}.seed"

    @property
    def public_file(self) -> str:
        """Where the public key stands in the Secret."""
        return f"{self}.public"

    @property
    def variable(self) -> str:
        """The variable that tells the server the public key."""
        return f"SLICEWIRE_{self.upper()}_KEY"
