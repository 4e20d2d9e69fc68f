"""The part of each service's settings that says where the bus is and who asks to be let in."""

from __future__ import annotations

import pathlib

from pydantic import Field

from shared.bus.login import Login
from shared.runtime import settings


class BusSettings(settings.ServiceSettings):
    """A user with a password: of the controller, or of a role on somebody's existing NATS."""

    bus_url: str = Field(default="nats://127.0.0.1:4222", description="address of NATS")
    bus_user: str = Field(default="", description="user name on the bus")
    bus_password_file: pathlib.Path | None = Field(
        default=None, description="file that holds the user's password"
    )

    @property
    def login(self) -> Login:
        """What is shown at the bus."""
        return Login(user=self.bus_user, password_file=self.bus_password_file)


class NodeBusSettings(BusSettings):
    """A node service: it may show its pod's token instead, which the controller reviews."""

    bus_token_file: pathlib.Path | None = Field(
        default=None, description="file with the pod's token, renewed by the kubelet"
    )

    @property
    def login(self) -> Login:
        """What is shown at the bus."""
        return Login(
            user=self.bus_user,
            password_file=self.bus_password_file,
            token_file=self.bus_token_file,
        )
