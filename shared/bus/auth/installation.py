"""Makes the keys of one installation, as the files of its Secret."""

from __future__ import annotations

from shared.bus.auth import nkeys
from shared.bus.auth.nkeys import Kind
from shared.contract.keys import Key

KINDS = {Key.ISSUER: Kind.ACCOUNT, Key.CURVE: Kind.CURVE}  # all others are users


def make() -> dict[str, str]:
    """Make a seed and a public key for each use, by file name."""
    files = {}
    for key in Key:
        made = nkeys.new(KINDS.get(key, Kind.USER))
        files[key.seed_file] = made.seed
        files[key.public_file] = made.public
    return files
