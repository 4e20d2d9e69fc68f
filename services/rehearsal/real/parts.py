"""The pods of a release, and what their commands and pages say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from services.rehearsal.real.seen import Object, Seen
from services.rehearsal.stage import StageError
from shared.runtime import clock
from shared.simulation.kube import paths
from shared.simulation.kube.api_client import ApiClient, ApiRefusedError, CommandFailedError

NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
CHART = "slicewire"
FRESH_S = 1.0  # a command takes a process' start in the controller's pod
PAGES = 8081


class Parts:
    """One release in its namespace."""

    def __init__(self, api: ApiClient, seen: Seen, namespace: str) -> None:
        self.namespace = namespace
        self._api = api
        self._seen = seen
        self._answers: dict[tuple[str, ...], tuple[float, Any]] = {}

    def pods(self, part: str, node: str = "") -> list[Object]:
        """The pods of a part that run now, on one node where it is named."""
        return [pod for pod in self._seen.pods.values() if self._is(pod, part, node)]

    def _is(self, pod: Object, part: str, node: str) -> bool:
        labels = pod["metadata"].get("labels") or {}
        return (
            pod["metadata"]["namespace"] == self.namespace
            and labels.get(NAME) == CHART
            and labels.get(COMPONENT) == part
            and node in ("", pod["spec"].get("nodeName"))
            and pod["status"].get("phase") == "Running"
        )

    async def ask(self, *words: str) -> Any:
        """What one of our commands prints as JSON, by a controller's pod; a moment old at most.

        Raises:
            StageError: nobody answers.
        """
        asked_at, answer = self._answers.get(words, (-FRESH_S, None))
        if clock.loop_time() - asked_at < FRESH_S:
            return answer
        said = await self.run("controller", "", ("slicewire", *words, "-o", "json"))
        self._answers[words] = clock.loop_time(), json.loads(said)
        return self._answers[words][1]

    async def run(self, part: str, node: str, command: Sequence[str]) -> str:
        """Run a command in a part's pod, the first that can.

        Raises:
            StageError: none can; the text is what the last one said.
        """
        where = f" on {node}" if node else ""
        trouble = f"no pod of {part} runs{where} in namespace {self.namespace}"
        for pod in self.pods(part, node):
            try:
                return await self._api.run(paths.pod(pod), command, container=part)
            except (CommandFailedError, ApiRefusedError, OSError) as error:
                trouble = str(error)
        raise StageError(trouble)

    async def page(self, pod: Object) -> str:
        """The metrics page of a pod, by way of the API server; empty where it shows none."""
        name, namespace = (pod["metadata"][key] for key in ("name", "namespace"))
        try:
            return await self._api.text(f"{paths.pods_in(namespace)}/{name}:{PAGES}/proxy/metrics")
        except (ApiRefusedError, OSError):
            return ""

    async def restart(self, part: str, node: str) -> None:
        """Delete a part's pods; others take their place."""
        for pod in self.pods(part, node):
            await self._api.delete(paths.pod(pod), {})


def environment(deployment: Mapping[str, Any]) -> dict[str, str]:
    """Variables of the first container, as far as they are plain."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}
