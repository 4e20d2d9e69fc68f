"""The composition of the gate: keys from the Secret, reviews by the API server, answers on the bus.

`services.reconfigurer.controller.app` runs it beside the election.
"""

from __future__ import annotations

import asyncio
import pathlib

from services.reconfigurer.controller import kube
from services.reconfigurer.controller.auth import cache, reviews
from services.reconfigurer.controller.auth.identity import Accounts
from services.reconfigurer.controller.settings import ControllerSettings
from shared.bus import connection
from shared.bus.auth import callout, desk, jwt, sealing
from shared.bus.login import Login
from shared.contract import table
from shared.contract.keys import Key


async def serve(settings: ControllerSettings, keys: pathlib.Path, api: kube.Kube) -> None:
    """Say who may enter the bus, until cancelled."""
    clerk = await asyncio.to_thread(_clerk, keys)
    accounts = Accounts(settings.bus_audience, settings.bus_accounts)
    known = cache.Cache(reviews.TokenReviews(api, accounts).review)
    login = Login(seed_file=keys / Key.GATE.seed_file)
    async with connection.open_bus(settings.bus_url, login, table.Role.CONTROLLER) as bus:
        await desk.Desk(bus, clerk, known.entrant).run()


def _clerk(keys: pathlib.Path) -> callout.Clerk:
    issuer, curve = (
        (keys / each.seed_file).read_text(encoding="utf-8").strip()
        for each in (Key.ISSUER, Key.CURVE)
    )
    return callout.Clerk(jwt.Issuer(issuer), sealing.Curve(curve))
