"""What the kubelet asks about a resource → an answer or a refusal, in the ledger and as a span.

`plugin` translates it from and to gRPC. Nothing here waits for NVML, the bus or the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.allocator import grant, preference
from services.allocator.keeper import Keeper
from services.allocator.standing import Rules
from shared.runtime import clock
from shared.telemetry import catalogue, spans

UNRULED = Rules()
MOST_NAMED = 16  # slots named in a span; their count is always there
UNANSWERED = "the kubelet broke the call off before it was answered"
REFUSALS = (grant.InvalidRequestError, grant.WithheldError, preference.NotEnoughGpusError)


class Desk:
    """Answers for all resources.

    `on_granted` is called after each Allocate (a List will soon say for whom it was); `on_host`
    says where the host has a device.
    """

    def __init__(
        self,
        keeper: Keeper,
        telemetry: spans.Telemetry,
        on_granted: Callable[[], None],
        on_host: Callable[[str], str],
    ) -> None:
        self._keeper = keeper
        self._telemetry = telemetry
        self._on_granted = on_granted
        self._on_host = on_host

    def prefer(self, resource: str, request: preference.Request) -> tuple[str, ...]:
        """Propose slots for one container.

        Raises:
            NotEnoughGpusError: policy distinct, and too few GPUs.
        """
        standing = self._keeper.standing
        try:
            return preference.prefer(
                standing.slots.get(resource, {}),
                request,
                standing.rules.get(resource, UNRULED).policy,
                standing.taken_elsewhere(resource),
            )
        except preference.NotEnoughGpusError as error:
            self._keeper.refused(resource, (), f"{resource}: {error}", "")
            raise

    async def allocate(
        self, resource: str, containers: Sequence[Sequence[str]]
    ) -> tuple[grant.Answer, ...]:
        """Grant all containers' slots or none, and write them down before answering.

        Raises:
            InvalidRequestError, WithheldError, NotEnoughGpusError: with a sentence for the pod.
        """
        step, began = self._telemetry.begin("allocate slots"), clock.loop_time()
        standing = self._keeper.standing
        rules = standing.rules.get(resource, UNRULED)
        slots = standing.slots.get(resource, {})
        wanted = [slot for ids in containers for slot in ids]
        attributes: dict[str, spans.Attribute] = {
            "resource": resource,
            "policy": rules.policy.value,
            "slots": ",".join(wanted[:MOST_NAMED]),
            "slots.count": len(wanted),
        }
        error = UNANSWERED
        try:
            grant.refuse_twice(resource, containers)
            answers = tuple(
                grant.answer(resource, ids, slots, rules, self._on_host) for ids in containers
            )
            await self._keeper.allocated(resource, wanted, step.trace_id)
            error = ""
        except REFUSALS as refusal:
            error = str(refusal)
            self._keeper.refused(resource, wanted, error, step.traceparent)
            raise
        finally:
            links = (self._keeper.traceparent,)
            self._telemetry.end(step, attributes=attributes, error=error, links=links)
            self._telemetry.meters.time(
                catalogue.ALLOCATE_DURATION,
                clock.loop_time() - began,
                resource=resource,
                outcome="refused" if error else "granted",
            )
        self._on_granted()
        return answers
