"""Conditions → what a real cluster shows now: its API server, our commands, and containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from services.rehearsal import matching
from services.rehearsal.real import changes
from services.rehearsal.real.counters import LISTS, REGISTRATIONS, Counters
from services.rehearsal.real.parts import Parts
from services.rehearsal.real.seen import Seen
from services.rehearsal.stage import Observation, StageError
from services.rehearsal.story import About, Condition
from shared.simulation.kube import paths
from shared.simulation.kube.api_client import ApiClient, ApiRefusedError, CommandFailedError

NOTHING: Mapping[str, Any] = {}
DEVICES = ("sh", "-c", "echo /dev/nvidia* /dev/nvidia-caps/*")
CAPS = "/dev/nvidia-caps"  # a folder
HELD = frozenset(("slots", "gpus", "uuids"))
CUT = frozenset(("geometry", "kept"))
Instances = Mapping[str, Mapping[str, str]]  # profile by UUID, by the GPU's index


class Observer:
    """Looks; what is counted since the last step that acted stands in `lists` and `rejections`."""

    def __init__(self, api: ApiClient, seen: Seen, parts: Parts, counters: Counters) -> None:
        self._api = api
        self._seen = seen
        self._parts = parts
        self._counters = counters
        self._rejections: Counter[str] = Counter()
        self._lists: dict[str, int] = {}
        self._remembered: dict[str, Instances] = {}

    async def begin_step(self, nodes: tuple[str, ...]) -> None:
        """Count from here."""
        self._rejections = self._seen.rejections()
        for node in nodes:
            await self._counters.look(node)
            self._lists[node] = self._counters.total(node, LISTS)

    async def remember(self, nodes: tuple[str, ...]) -> None:
        """Compare from here on with the MIG instances that there are now."""
        self._remembered = {node: await self._instances(node) for node in nodes}

    async def observe(self, condition: Condition, moments: Mapping[str, int]) -> Observation:
        """Look at what a condition is about; what nobody can tell now is absent."""
        try:
            return await self._look(condition, moments)
        except StageError:
            return Observation(NOTHING, NOTHING)

    async def _look(self, condition: Condition, moments: Mapping[str, int]) -> Observation:
        given = condition.given
        match condition.about:
            case About.NODE:
                seen = await self._node(condition.name, condition.keys)
            case About.POD:
                seen = await self._pod(condition.name, condition.keys)
            case About.WHO:
                return await self._who(given["node"], given["gpu"])
            case About.WHY:
                seen = await self._parts.ask("why", given["pod"])
            case About.TRACE:
                return await changes.observe(
                    self._parts, moments.get(given["from"], 0), dict(condition.wants)
                )
            case About.BUS | About.API:
                seen = {}
        return Observation(seen, NOTHING)

    async def _node(self, name: str, keys: frozenset[str]) -> dict[str, Any]:
        body = self._seen.nodes.get(name, {})
        status = body.get("status", {})
        seen: dict[str, Any] = {
            "capacity": _quantities(status.get("capacity", {})),
            "allocatable": _quantities(status.get("allocatable", {})),
            "labels": body.get("metadata", {}).get("labels", {}),
            "schedulable": not body.get("spec", {}).get("unschedulable", False),
            "condition": matching.Several(tuple(status.get("conditions", ()))),
            "event": self._seen.events("Node", "", name),
            "rejections": self._seen.rejections()[name] - self._rejections[name],
        }
        if keys & {"lists", "registrations"}:
            await self._counters.look(name)
            seen["lists"] = self._counters.total(name, LISTS) - self._lists.get(name, 0)
            seen["registrations"] = self._counters.total(name, REGISTRATIONS)
        if "slots" in keys:
            seen["slots"] = (await self._said(name)).get("resources", {})
        if keys & CUT:
            seen |= self._cut(name, await self._instances(name))
        return seen

    def _cut(self, node: str, now: Instances) -> dict[str, Any]:
        before = self._remembered.get(node, {})
        return {
            "geometry": {gpu: dict(Counter(held.values())) for gpu, held in now.items()},
            "kept": {gpu: len(held.keys() & before.get(gpu, {})) for gpu, held in now.items()},
        }

    async def _said(self, node: str) -> Mapping[str, Any]:
        said = await self._parts.ask("status")
        return next((each for each in said["nodes"] if each["name"] == node), {})

    async def _instances(self, node: str) -> Instances:
        return {
            str(gpu["index"]): {each["uuid"]: each["profile"] for each in gpu["instances"]}
            for gpu in (await self._said(node)).get("gpus", ())
        }

    async def _pod(self, key: str, keys: frozenset[str]) -> dict[str, Any]:
        namespace, _, name = key.partition("/")
        body = self._seen.pods.get(key, {})
        status = body.get("status", {})
        seen: dict[str, Any] = {
            "phase": status.get("phase"),
            "reason": status.get("reason"),
            "message": status.get("message"),
            "node": body.get("spec", {}).get("nodeName"),
            "evicted": self._seen.evicted(key),
            "restarts": sum(each["restartCount"] for each in status.get("containerStatuses") or ()),
            "event": self._seen.events("Pod", namespace, name),
        }
        if keys & HELD:
            rows = await self._holders(seen["node"], key)
            seen["slots"] = [row["slot"] for row in rows]
            seen["uuids"] = sorted({row["uuid"] for row in rows})
            seen["gpus"] = len({(row["node"], row["gpu"]) for row in rows})
        if "env" in keys:
            seen["env"] = dict(
                line.split("=", 1) for line in await self._inside(body, ("env",)) if "=" in line
            )
        if "devices" in keys:
            found = " ".join(await self._inside(body, DEVICES)).split()
            seen["devices"] = [path for path in found if "*" not in path and path != CAPS]
        return seen

    async def _holders(self, node: str | None, pod: str) -> list[Mapping[str, Any]]:
        """What a pod holds on the node on which it is."""
        said = await self._parts.ask("who", "--node", node) if node else {"holders": ()}
        return [row for row in said["holders"] if row["pod"] == pod]

    async def _inside(self, pod: Mapping[str, Any], command: tuple[str, ...]) -> list[str]:
        """Lines that a command prints in all containers of a pod that runs."""
        if pod.get("status", {}).get("phase") != "Running":
            return []
        lines: list[str] = []
        for container in pod["spec"]["containers"]:
            try:
                said = await self._api.run(paths.pod(pod), command, container["name"])
            except (ApiRefusedError, CommandFailedError, OSError):
                return []
            lines += said.splitlines()
        return lines

    async def _who(self, node: str, gpu: int | str) -> Observation:
        rows = [
            row
            for row in (await self._parts.ask("who", "--node", node))["holders"]
            if gpu in (row["gpu"], row["uuid"])
        ]
        pods = sorted({row["pod"] for row in rows if row["pod"]})
        return Observation({"pods": pods}, {"holders": rows})


def _quantities(named: Mapping[str, str]) -> dict[str, int | str]:
    return {name: int(text) if text.isdecimal() else text for name, text in named.items()}
