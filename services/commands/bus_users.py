"""`slicewire bus users`: the accounts and users that slicewire needs on an existing NATS.

What it prints goes into that server's configuration. Each role is one user on all nodes: the
chart's own NATS is stricter (docs/adr/0012).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from shared.contract import server_conf
from shared.contract.table import Role

HEAD = """\
# Accounts of slicewire. The server needs JetStream, and these variables in its environment:
# {variables}.
# Whoever has the password of a role speaks for it on every node.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    argparse.ArgumentParser(
        prog="slicewire bus users", description="Print the accounts for an existing NATS."
    ).parse_args(argv)
    variables = ", ".join(server_conf.password_variable(role) for role in Role)
    sys.stdout.write(HEAD.format(variables=variables) + server_conf.role_accounts())
    return 0
