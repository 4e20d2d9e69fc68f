"""`ApiServer`: the embedded Kubernetes API server as one object to start, stop and look into.

Demo, rehearsals and tests start one in their own loop. It stands in for kube-apiserver and etcd
and for the parts of the controllers that our services meet: disruption budgets and the emptying
of namespaces. It has no scheduler and no kubelet; those are stand-ins of their own, which come over
HTTP as everyone does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from aiohttp import web

from shared.runtime import clock
from shared.simulation.kube.apiserver import http, kinds, reviews
from shared.simulation.kube.apiserver.budgets import Budgets
from shared.simulation.kube.apiserver.faults import Hook
from shared.simulation.kube.apiserver.objects import Objects
from shared.simulation.kube.apiserver.pages import Pages
from shared.simulation.kube.apiserver.store import Store

HOST = "127.0.0.1"
FIRST_NAMESPACES = ("default", "kube-system")
SHUTDOWN_TIMEOUT = 0.2


class ApiServer:
    """An API server with a store of its own, which outlives `stop`.

    Attributes:
        store: what exists, to be read at any time.
        objects: the same under the server's rules, to be written in process.
        fault: the hook that every request passes first; set it at any time.
    """

    def __init__(
        self,
        *,
        window: int = 4096,
        bookmark: float = 60.0,
        pdb_delay: float = 0.0,
        tokens: reviews.Tokens | None = None,
        fault: Hook | None = None,
        now_ns: Callable[[], int] = clock.now_ns,
        rng: random.Random | None = None,
    ) -> None:
        """Make a server that has the first namespaces and does not listen yet.

        Args:
            window: how many changes a kind are kept for watches to resume from.
            bookmark: seconds between the bookmarks of a watch.
            pdb_delay: seconds until a write shows in the status of disruption budgets.
            tokens: what TokenReview knows: `user` and `audiences` by token.
            fault: the first fault hook.
            now_ns: the wall clock.
            rng: where uids, generated names and the length of watches come from.
        """
        chance = rng or random.SystemRandom()
        self.fault = fault
        self.store = Store(window)
        self.objects = Objects(self.store, now_ns, chance)
        self._budgets = Budgets(self.store, pdb_delay)
        self._pages = Pages(self.store)
        self._handler = http.Handler(
            self.objects,
            self._pages,
            tokens={} if tokens is None else tokens,
            bookmark_every=bookmark,
            now_ns=now_ns,
            rng=chance,
            hook=lambda: self.fault,
        )
        self._port = 0
        self._listening: AsyncExitStack | None = None
        for name in FIRST_NAMESPACES:
            self.objects.create(kinds.NAMESPACE, "", {"metadata": {"name": name}})

    @property
    def watches(self) -> int:
        """How many watches are open now."""
        return self.watches_of("")

    @property
    def requests(self) -> int:
        """How many requests have come since the server was made."""
        return self.requests_of("")

    def watches_of(self, agent: str) -> int:
        """How many watches are open now of clients whose User-Agent begins so."""
        return _sum(self._handler.counters.watches, agent)

    def requests_of(self, agent: str) -> int:
        """How many requests have come from clients whose User-Agent begins so."""
        return _sum(self._handler.counters.requests, agent)

    @property
    def is_serving(self) -> bool:
        """Whether the server listens."""
        return self._listening is not None

    @property
    def address(self) -> str:
        """Where the server listens, or did before it was stopped."""
        return f"http://{HOST}:{self._port}"

    async def start(self, port: int = 0) -> str:
        """Listen on loopback and return the address; a restart keeps the port unless told one."""
        if self._listening is not None:
            raise RuntimeError(
                f"the API server already listens on port {self._port}; stop it first"
            )
        app = web.Application(client_max_size=http.BODY_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._handler.handle)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,  # a watch ends when its client goes, not at its next event
            shutdown_timeout=SHUTDOWN_TIMEOUT,
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(runner.cleanup)
            await runner.setup()
            await web.TCPSite(runner, HOST, port or self._port).start()
            self._port = runner.addresses[0][1]
            self._listening = stack.pop_all()
        return self.address

    async def stop(self) -> None:
        """Close the listener and every watch; objects stay, resume points from before are gone."""
        if self._listening is None:
            return
        listening, self._listening = self._listening, None
        self.store.close_feeds()
        self._budgets.settle()
        await listening.aclose()
        self.compact()

    def compact(self) -> None:
        """Forget all changes and pages: older resume points and tokens are answered 410."""
        self.store.compact()
        self._pages.forget()


def _sum(counts: Mapping[str, int], agent: str) -> int:
    return sum(count for name, count in counts.items() if name.startswith(agent))
