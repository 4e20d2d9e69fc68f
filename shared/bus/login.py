"""How a process says who it is on the bus: a password, a token that others review, or a key.

Services make a `Login` of their settings; `shared.bus.connection` reads its files anew for each
connection, so a Secret that changes and a token that rotates need no restart.
"""

from __future__ import annotations

import base64
import pathlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.contract import permissions

EARLIEST, LATEST = 0.5, 0.8  # of a login's life, when it is renewed
AGAIN_EARLIEST, AGAIN_LATEST = 0.02, 0.05  # when a renewal failed


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown to the server at one login; empty is not shown."""

    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    public_key: str = ""
    sign: Callable[[str], bytes] | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """One user of the bus. With a token, the server ends the login after `life_s`."""

    user: str = ""
    password_file: pathlib.Path | None = None
    token_file: pathlib.Path | None = None
    seed_file: pathlib.Path | None = None
    life_s: float = permissions.LOGIN_LIFE_S

    def read(self) -> Shown:
        """Read what to show now. Reads files, so it belongs into a thread.

        Raises:
            OSError: a file is not there (yet).
            ValueError: the seed file holds no seed of a user.
        """
        if self.seed_file is not None:
            return _signing(_text(self.seed_file))
        return Shown(
            password=_text(self.password_file) if self.password_file else "",
            token=_text(self.token_file) if self.token_file else "",
        )

    def renew_after(self) -> float | None:
        """Seconds after which to enter anew, at random so that no fleet comes at one moment."""
        return self._part(EARLIEST, LATEST)

    def try_again_after(self) -> float | None:
        """Seconds until the next try of a renewal that failed."""
        return self._part(AGAIN_EARLIEST, AGAIN_LATEST)

    def _part(self, least: float, most: float) -> float | None:
        if self.token_file is None:
            return None
        return self.life_s * random.uniform(least, most)  # noqa: S311  # spreads a fleet


def _signing(seed: str) -> Shown:
    from shared.bus.auth import signing  # noqa: PLC0415  # PyNaCl is not in node images

    signer = signing.Signer(seed)
    return Shown(
        public_key=signer.public,
        sign=lambda nonce: base64.b64encode(signer.sign(nonce.encode())),
    )


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8").strip()
