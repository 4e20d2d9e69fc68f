"""A token → whose it is, by the API server's word: one TokenReview, some at a time."""

from __future__ import annotations

import asyncio

from services.reconfigurer.controller import kube
from services.reconfigurer.controller.auth import identity
from services.reconfigurer.controller.auth.identity import Accounts, Identity
from shared.bus.auth.callout import DeniedError, UnsureError

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
AT_ONCE = 32
ANSWER_S = 1.5  # the server of the bus waits no longer than 1.9 s for our answer
MOST_BYTES = 16_384  # a pod's token has 1 to 2 kB


class TokenReviews:
    """Asks one API server."""

    def __init__(self, api: kube.Kube, accounts: Accounts) -> None:
        self._api = api
        self._accounts = accounts
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def review(self, token: str) -> Identity:
        """Ask whose token it is.

        Raises:
            DeniedError: nobody's who may enter.
            UnsureError: the API server did not answer, or does not let us ask.
        """
        if not token or len(token) > MOST_BYTES:
            raise DeniedError("no token was shown, or one of an impossible length")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._accounts.audience]},
        }
        try:
            async with asyncio.timeout(ANSWER_S), self._gate:
                answer = await self._api.call("POST", PATH, body=body)
        except (kube.KubeError, TimeoutError) as error:
            said = str(error) or "no answer in time"
            raise UnsureError(f"the token could not be reviewed: {said}") from error
        return identity.identify(answer.get("status") or {}, token, self._accounts)
