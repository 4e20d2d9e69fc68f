"""MPS daemons of a node's inventory → Events for the node and for the pods that are clients. Pure.

A daemon that is down is told once, as a sick GPU is (`health`); one that is up again too.
"""

from __future__ import annotations

from collections.abc import Iterator

from services.reconfigurer.controller import saying
from shared.contract import names
from shared.contract.messages import Inventory, Ledger
from shared.contract.mps import DaemonState, MpsDaemon
from shared.domain.sharing import Strategy


def down(about: saying.About, inventory: Inventory, ledger: Ledger | None) -> Iterator[saying.Say]:
    """What is to be said about daemons that take nobody now."""
    for daemon in inventory.mps:
        if daemon.state is not DaemonState.DOWN:
            continue
        clients = _clients(daemon, ledger)
        verdict = f"the MPS daemon of {_words(daemon, inventory)} is down: {daemon.reason}"
        topic = f"{daemon.gpu_uuid} MPS {daemon.since_ns}"
        pods = ", ".join(f"{namespace}/{name}" for namespace, name in clients)
        yield saying.Say(
            about=about,
            reason=names.MPS_DAEMON_DOWN,
            message=f"{verdict}; its slots take no new pods. "
            + (f"Its clients were {pods}." if pods else "It had no clients."),
            warning=True,
            topic=topic,
        )
        for namespace, name in clients:
            yield saying.Say(
                about=saying.About(kind="Pod", namespace=namespace, name=name),
                reason=names.MPS_DAEMON_DOWN,
                message=f"Node {about.name}: {verdict}. This pod was its client and keeps its slot;"
                " its work on the GPU has failed or will: restart it when the daemon is up.",
                warning=True,
                topic=topic,
            )


def up(about: saying.About, before: Inventory, after: Inventory) -> Iterator[saying.Say]:
    """What is to be said about daemons that were down before and take clients again."""
    was_down = {each.gpu_uuid for each in before.mps if each.state is DaemonState.DOWN}
    for daemon in after.mps:
        if daemon.ready and daemon.gpu_uuid in was_down:
            words = _words(daemon, after)
            message = f"The MPS daemon of {words} takes clients again; its slots are served."
            yield saying.Say(about=about, reason=names.MPS_DAEMON_UP, message=message)


def _clients(daemon: MpsDaemon, ledger: Ledger | None) -> list[tuple[str, str]]:
    rows = ledger.rows if ledger else ()
    return sorted(
        {
            (row.holder.namespace, row.holder.pod)
            for row in rows
            if row.holder and row.gpu_uuid == daemon.gpu_uuid and row.strategy is Strategy.MPS
        }
    )


def _words(daemon: MpsDaemon, inventory: Inventory) -> str:
    index = next((gpu.index for gpu in inventory.gpus if gpu.uuid == daemon.gpu_uuid), None)
    return daemon.gpu_uuid if index is None else f"GPU {index} ({daemon.gpu_uuid})"
