"""Which words start what. `services.cli` lists and dispatches it, `simulate` starts services by it.

A row names its module as text, so that listing the commands imports none of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

OURS = ("services", "shared")


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that the command line can do; `module` holds `main(argv) -> exit status`.

    `extra` is the part of the distribution that brings what the module imports.
    """

    words: str
    module: str
    says: str
    extra: str = ""

    def run(self, argv: Sequence[str]) -> int:
        """Import the module and hand it the rest of the command line."""
        try:
            module = importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            if not self.extra or (error.name or "").partition(".")[0] in OURS:
                raise
            sys.stderr.write(
                f"slicewire {self.words} needs {error.name}, which is not installed: install"
                f" slicewire[{self.extra}]\n"
            )
            return 1
        status: int = module.main(list(argv))
        return status


PEOPLE = (
    Command("status", "services.commands.status", "show each GPU's slots, health and config"),
    Command("who", "services.commands.who", "name the pods that hold slots"),
    Command("why", "services.commands.why", "say why a pod does not run, and what would help"),
    Command("trace", "services.commands.trace", "print the tree of one change, step by step"),
    Command(
        "plan", "services.commands.plan", "say what sharing and MIG texts would do, offline", "node"
    ),
    Command("rehearse", "services.commands.rehearse", "play a story of your own", "demo"),
    Command("demo", "services.commands.demo", "play the shipped story on simulated GPUs", "demo"),
    Command(
        "bus keys", "services.commands.bus_keys", "make the keys of an installation", "cluster"
    ),
    Command("bus users", "services.commands.bus_users", "print accounts for an existing NATS"),
    Command(
        "cleanup", "services.commands.cleanup", "take what slicewire wrote off all nodes", "cluster"
    ),
)

SERVICES = (
    Command(
        "advertiser", "services.advertiser.__main__", "observe GPUs, publish the inventory", "node"
    ),
    Command("allocator", "services.allocator.__main__", "hand out slots to the kubelet", "node"),
    Command(
        "reconfigurer controller",
        "services.reconfigurer.controller.__main__",
        "resolve what each node should be",
        "cluster",
    ),
    Command(
        "reconfigurer agent",
        "services.reconfigurer.agent.__main__",
        "bring a node to what was resolved",
        "node",
    ),
    Command("mps", "services.reconfigurer.mps.__main__", "keep MPS daemons of GPUs", "node"),
)

SIMULATION = (
    Command(
        "simulate",
        "services.commands.simulate",
        "run a node's simulated GPUs, or a service on them",
        "demo",
    ),
)

ALL = PEOPLE + SERVICES + SIMULATION


def find(argv: Sequence[str], among: Sequence[Command] = ALL) -> tuple[Command, list[str]] | None:
    """Match the first words of `argv`; return the command and what is left for it."""
    for command in among:
        words = command.words.split()
        if list(argv[: len(words)]) == words:
            return command, list(argv[len(words) :])
    return None
