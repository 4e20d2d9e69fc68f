"""The pods loop: pods bound to the node are admitted, run, and ended when they are deleted.

Admission goes one pod at a time, in the order in which the API server tells of them. A deleted pod
gets its whole grace, then its object goes with a delete of grace 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

from shared.runtime import clock
from shared.simulation.kube import api_client, paths, pod_events
from shared.simulation.kube.apiserver import moments
from shared.simulation.kube.kubelet import (
    admission,
    containers,
    device_manager,
    pod_status,
    record,
    registration,
)
from shared.simulation.kube.kubelet.runtime import DiedError, Runtime

TERMINAL: Final = frozenset({"Succeeded", "Failed"})

_log = logging.getLogger(__name__)


class Pods:
    """One life of the kubelet's pods loop over `running`, the containers that outlive it.

    `booting` are the pods that ran before the node booted and have not been admitted again yet.
    """

    def __init__(
        self,
        api: api_client.ApiClient,
        node: str,
        admit: admission.Admission,
        *,
        running: dict[str, containers.RunningPod],
        booting: dict[str, containers.RunningPod],
        runtime: Runtime,
        seen: record.Record,
        save: registration.Save,
    ) -> None:
        self._api = api
        self._node = node
        self._admission = admit
        self._running = running
        self._booting = booting
        self._runtime = runtime
        self._seen = seen
        self._save = save
        self.forced: set[str] = set()  # that ran on when their objects had gone
        self._heard: set[str] = set()
        self._ends: dict[str, tuple[float, dict[str, Any]]] = {}
        self._ends_changed = asyncio.Event()

    def has_heard_of(self, uid: str) -> bool:
        """Whether the API server has named a pod in this life; until then no List shows it."""
        return uid in self._heard

    async def run(self) -> None:
        """Follow the node's pods for ever."""
        async for change in self._api.follow(paths.PODS, {"spec.nodeName": self._node}):
            await self._handle(change)

    async def end_deleted(self) -> None:
        """End deleted pods when their grace is over, for ever."""
        while True:
            now = clock.loop_time()
            for uid in [uid for uid, (at, _) in self._ends.items() if at <= now]:
                await self._end(uid)
            first = min((at for at, _ in self._ends.values()), default=None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(first):
                    await self._ends_changed.wait()
            self._ends_changed.clear()

    async def finish(self, pod: containers.RunningPod, exit_code: int) -> None:
        """End a pod's containers by themselves; its object stays."""
        pod.finished = True
        await self._runtime.end(pod)
        now = moments.to_time(clock.now_ns())
        await self._write(pod.manifest, pod_status.finished(pod.manifest, now, exit_code))

    async def _handle(self, change: api_client.Change) -> None:
        pod = change.object
        self._heard.add(change.uid)
        if change.gone:
            if change.uid in self._running:
                self.forced.add(change.uid)
            await self._forget(change.uid)
            return
        known = self._running.get(change.uid)
        if known is not None:
            known.manifest = pod
        if "deletionTimestamp" in pod["metadata"]:
            self._end_later(pod, runs=known is not None and not known.finished)
        elif known is None and pod["status"].get("phase") not in TERMINAL:
            await self._admit(pod)

    async def _forget(self, uid: str) -> None:
        """End the containers of a pod whose object is gone, or is about to go."""
        self._heard.discard(uid)
        self._ends.pop(uid, None)
        self._booting.pop(uid, None)
        pod = self._running.pop(uid, None)  # first: once the object is gone, no List shows the pod
        if pod is not None:
            await self._runtime.end(pod)

    async def _admit(self, pod: dict[str, Any]) -> None:
        uid = str(pod["metadata"]["uid"])
        former = self._booting.get(uid)
        try:
            admitted = await self._admission.admit(pod, former.containers if former else {})
        except device_manager.RefusedPodError as refused:
            await self._reject(pod, str(refused))
            return
        finally:
            self._booting.pop(uid, None)
        restarts = former.restarts + 1 if former else 0
        running = self._running[uid] = containers.RunningPod(pod, admitted, restarts=restarts)
        await self._save()
        try:
            await self._runtime.begin(running)
        except DiedError as died:
            _log.info("the process of %s has ended: %s", running.key, died)
            await self.finish(running, exit_code=1)
            return
        now = moments.to_time(clock.now_ns())
        await self._write(pod, pod_status.running(pod, now, restarts))

    async def _reject(self, pod: dict[str, Any], message: str) -> None:
        reason = admission.REASON
        key, uid = containers.key_of(pod), str(pod["metadata"]["uid"])
        self._seen.rejections.append(record.Rejection(key, uid, reason, message))
        await self._save()
        await self._write(pod, pod_status.rejected(reason, message))
        now = moments.to_time(clock.now_ns())
        source = {"component": "kubelet", "host": self._node}
        event = pod_events.warning(pod, reason, message, now, source)
        with contextlib.suppress(api_client.ApiRefusedError):
            await self._api.create(paths.events(pod["metadata"]["namespace"]), event)

    def _end_later(self, pod: dict[str, Any], *, runs: bool) -> None:
        """Note when a deleted pod is to end: at once if it doesn't run.

        A second deletion with less grace changes the object only: the stop of the containers is
        under way by then (seen on 1.37.2 with containerd 2.4.2).
        """
        uid = pod["metadata"]["uid"]
        if runs and uid in self._ends:
            return
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 0) if runs else 0
        self._ends[uid] = (clock.loop_time() + grace, pod)
        self._ends_changed.set()

    async def _end(self, uid: str) -> None:
        """End a pod's containers and take its object away."""
        _, pod = self._ends[uid]
        await self._forget(uid)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        with contextlib.suppress(api_client.ApiRefusedError):  # somebody was faster
            await self._api.delete(paths.pod(pod), options)

    async def _write(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        """Write a pod's status, if it is still that pod."""
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        try:
            await self._api.patch(f"{paths.pod(pod)}/status", body)
        except api_client.ApiRefusedError as refused:
            _log.info("the status of %s was not taken: %s", containers.key_of(pod), refused)
