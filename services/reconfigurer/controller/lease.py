"""Leader election by a Lease: of all controller processes one works, the others wait.

`Election.lead(work)` runs `work` while this process holds the Lease and cancels it the moment the
Lease cannot be trusted any more. The identity is new per process, so a restarted controller counts
as another leader and `leaseTransitions` grows: generations are built on that.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from services.reconfigurer.controller import kube
from shared.runtime import clock

log = logging.getLogger(__name__)

RELEASE_S = 2.0  # on a planned stop; whoever comes next waits no longer than the lease anyway
RETRY_S = 1.0  # at most, after a renewal that failed


class LostError(Exception):
    """The Lease is somebody else's, or could not be renewed in time."""


class Election:
    """One candidate for one Lease."""

    def __init__(
        self, api: kube.Kube, namespace: str, name: str, identity: str, duration_s: float
    ) -> None:
        self._api = api
        self._group = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._identity = identity
        self._duration_s = duration_s
        self._lease: kube.Json = {}  # as last read or written
        self._seen_version = ""  # of the holder that we wait for...
        self._seen_at = 0.0  # ...and since when it stands, by our own clock
        self.leads = False

    async def lead(self, work: Callable[[int], Awaitable[None]]) -> NoReturn:
        """For ever: wait for the Lease, run `work(leaseTransitions)` while holding it."""
        while True:
            await self._until_ours()
            log.info("%s leads now", self._identity)
            self.leads = True
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._keep(), name="renew lease")
                    tasks.create_task(_ending(work, self.transitions), name="lead")
            except* LostError as lost:
                log.warning("%s leads no more: %s", self._identity, lost.exceptions[0])
            finally:
                self.leads = False
                await self._release()

    @property
    def transitions(self) -> int:
        """How many times the Lease has changed hands."""
        return int(self._lease["spec"].get("leaseTransitions") or 0)

    async def _until_ours(self) -> None:
        while True:
            try:
                if await self._try():
                    return
            except kube.KubeError as error:
                log.warning("lease %s: %s; trying again", self._name, error)
            await clock.sleep(self._pause() * random.uniform(0.8, 1.2))  # noqa: S311 - only spread

    async def _try(self) -> bool:
        try:
            self._lease = await self._api.call("GET", f"{self._group}/{self._name}")
        except kube.KubeError as error:
            if not error.missing:
                raise
            return await self._write("POST", self._group, {"metadata": {"name": self._name}})
        return self._free() and await self._write("PUT", f"{self._group}/{self._name}", self._lease)

    def _free(self) -> bool:
        """Nobody holds it, or its holder has not renewed for a whole duration by our own clock.

        The times in the Lease are its holder's: clocks of two machines are never compared.
        """
        spec = self._lease.get("spec", {})
        version = self._lease["metadata"]["resourceVersion"]
        now = clock.loop_time()
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, now
        duration = float(spec.get("leaseDurationSeconds") or self._duration_s)
        return not spec.get("holderIdentity") or now - self._seen_at >= duration

    async def _write(self, method: str, path: str, lease: kube.Json) -> bool:
        """Take the Lease or renew it; False when somebody else wrote it first."""
        stamp = clock.utc(clock.now_ns())
        wanted = copy.deepcopy(lease)
        spec: dict[str, Any] = wanted.setdefault("spec", {})
        wanted |= {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        if spec.get("holderIdentity") != self._identity:
            held_before = "leaseTransitions" in spec
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + int(held_before)
            spec["acquireTime"] = stamp
        spec["holderIdentity"] = self._identity
        spec["leaseDurationSeconds"] = max(1, round(self._duration_s))
        spec["renewTime"] = stamp
        try:
            self._lease = await self._api.call(method, path, body=wanted)
        except kube.KubeError as error:
            if error.conflict:
                return False
            raise
        return True

    async def _keep(self) -> NoReturn:
        """Renew each third of the duration; give up at two thirds without a renewal.

        A try that fails is followed soon by the next: there is room for several until then.

        Raises:
            LostError: somebody else has it, or nobody can say that it is still ours.
        """
        renewed, pause, refusal = clock.loop_time(), self._pause(), ""
        while True:
            await clock.sleep(pause)
            began = clock.loop_time()
            try:
                async with asyncio.timeout(self._left(renewed)):
                    if not await self._renew():
                        holder = self._lease["spec"].get("holderIdentity")
                        raise LostError(f"{holder or 'nobody'} holds the lease {self._name}")
            except (kube.KubeError, TimeoutError) as error:
                refusal = str(error) or refusal or "the API server does not answer"
                left = self._left(renewed)
                if not left:
                    said = f"the lease {self._name} could not be renewed in time: {refusal}"
                    raise LostError(said) from error
                log.warning("lease %s not renewed: %s; trying again", self._name, refusal)
                pause = min(RETRY_S, self._duration_s / 15, left)
            else:
                renewed, pause, refusal = began, self._pause(), ""

    def _left(self, renewed: float) -> float:
        """Seconds in which the Lease that was renewed then can still be trusted."""
        return max(0.0, renewed + self._duration_s * 2 / 3 - clock.loop_time())

    async def _renew(self) -> bool:
        path = f"{self._group}/{self._name}"
        if await self._write("PUT", path, self._lease):
            return True
        self._lease = await self._api.call("GET", path)  # an answer of ours may have been lost
        return self._ours() and await self._write("PUT", path, self._lease)

    def _ours(self) -> bool:
        return bool(self._lease.get("spec", {}).get("holderIdentity") == self._identity)

    def _pause(self) -> float:
        return self._duration_s / 3

    async def _release(self) -> None:
        """Let the successor start at once; if that cannot be said now, the Lease runs out."""
        if not self._ours():
            return
        released = copy.deepcopy(self._lease)
        released["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        with contextlib.suppress(kube.KubeError, TimeoutError):
            async with asyncio.timeout(RELEASE_S):
                await self._api.call("PUT", f"{self._group}/{self._name}", body=released)
        self._lease = {}


async def _ending(work: Callable[[int], Awaitable[None]], transitions: int) -> None:
    await work(transitions)
    raise LostError("the work has ended")
