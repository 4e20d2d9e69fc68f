"""`Real`: a cluster on which the chart is installed, as the stage that the engine plays on.

What a story changes there is put back when it ends, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from services.rehearsal.real import checks
from services.rehearsal.real.acts import Acts
from services.rehearsal.real.counters import Counters
from services.rehearsal.real.former import Former
from services.rehearsal.real.kubeconfig import Access
from services.rehearsal.real.observe import Observer
from services.rehearsal.real.parts import Parts
from services.rehearsal.real.seen import Seen
from services.rehearsal.stage import Observation, StageError
from services.rehearsal.story import Act, Condition, Story
from shared.simulation.kube.api_client import ApiClient, ApiRefusedError

ANSWER_S = 15.0
WITHIN_S = 30.0  # for expectations that do not say it: a kubelet writes its status every 10 s
TEXTS = ("sharing", "mig")  # ConfigMaps that are not there where a story does not bring them


@dataclass(frozen=True, slots=True)
class Where:
    """The cluster of a rehearsal.

    Attributes:
        access: its API server.
        namespace: that of the release.
        image: what the story's pods run; it needs a shell, `env` and `sleep`.
    """

    access: Access
    namespace: str
    image: str


class Real:
    """A stage."""

    def __init__(self, nodes: tuple[str, ...], acts: Acts, observer: Observer) -> None:
        self._nodes = nodes
        self._acts = acts
        self._observer = observer

    async def act(self, action: Act) -> None:
        """Do it; StageError says why it cannot be done."""
        await self._observer.begin_step(self._nodes)
        await self._acts.act(action)

    async def observe(self, condition: Condition, moments: Mapping[str, int]) -> Observation:
        """Look at what the condition is about."""
        return await self._observer.observe(condition, moments)

    def mark(self) -> None:
        """Counts begin in `act`, which may ask for them."""

    async def remember(self) -> None:
        """Compare from here on with the MIG instances that there are now."""
        await self._observer.remember(self._nodes)


@contextlib.asynccontextmanager
async def opened(story: Story, where: Where) -> AsyncIterator[Real]:
    """Bring the cluster to where the story begins; afterwards it is as it was.

    Raises:
        StageError: the story cannot be played there; nothing has been changed.
    """
    access = where.access
    async with (
        ApiClient(access.server, access.tls, access.headers) as api,
        contextlib.AsyncExitStack() as stack,
    ):
        seen = Seen(api)
        await _answered(access, seen)
        parts = Parts(api, seen, where.namespace)
        nodes = tuple(node.name for node in story.nodes)
        await checks.check(story, api, seen, parts)
        counters = Counters(parts, nodes)
        await counters.begin()
        await stack.enter_async_context(_following(seen))
        acts = Acts(api, parts, Former(api, stack), nodes, where.image)
        observer = Observer(api, seen, parts, counters)
        await _begin(story, acts)
        await observer.begin_step(nodes)
        yield Real(nodes, acts, observer)


async def _answered(access: Access, seen: Seen) -> None:
    try:
        async with asyncio.timeout(ANSWER_S):
            await seen.begin()
    except TimeoutError:
        raise StageError(
            f"the API server {access.server} did not answer in {ANSWER_S:g} s"
        ) from None
    except ApiRefusedError as refused:
        raise StageError(f"the API server refused it: {refused}") from refused


@contextlib.asynccontextmanager
async def _following(seen: Seen) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(seen.run(), name="follow the cluster")
        try:
            yield
        finally:
            following.cancel()


async def _begin(story: Story, acts: Acts) -> None:
    """Have the story's labels and ConfigMaps stand, and no other texts."""
    try:
        for node in story.nodes:
            await acts.label(node.name, node.labels)
        absent = dict.fromkeys(await acts.standing(TEXTS))
        for name, data in (absent | dict(story.config_maps)).items():
            await acts.config_map(name, data)
    except ApiRefusedError as refused:
        raise StageError(f"the API server refused it: {refused}") from refused
