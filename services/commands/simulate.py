"""`slicewire simulate`: own a node's simulated GPUs, or run a service on them.

The simulation knows no service; this module hands it the way to start one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services.commands import catalogue
from services.commands.catalogue import SERVICES
from shared.runtime import starting
from shared.sharing import suggest
from shared.simulation.gpu import simulate


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    words = list(argv)
    if "--" in words:
        service = words[words.index("--") + 1 :]
        if catalogue.find(service, SERVICES) is None:
            known = [each.words for each in SERVICES]
            typed = " ".join(service[:2])
            hint = suggest.did_you_mean(typed, known) or f"there are {suggest.listed(known)}"
            sys.stderr.write(f"slicewire simulate: there is no service {typed!r}: {hint}\n")
            return 2
        starting.end_when_told()
    return simulate.main(words, run_service)


def run_service(words: list[str]) -> int:
    """Run the service that the words after `--` name, with its own arguments."""
    found = catalogue.find(words, SERVICES)
    if found is None:
        raise ValueError(f"{words} names no service")
    service, rest = found
    return service.run(rest)
