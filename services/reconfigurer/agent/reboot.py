"""Boots the node anew, which the policy must allow: a command of the host, given in the settings.

`loop` calls it once the intention is on disk and on the bus.
"""

from __future__ import annotations

import asyncio
import logging
import shlex

from services.reconfigurer.agent.memory import Reason
from services.reconfigurer.agent.view import Outcome
from shared.runtime import clock, logs
from shared.telemetry import spans

log = logging.getLogger(__name__)
GOES_DOWN_S = 600.0  # a node that still runs after that does not boot


class Rebooter:
    """Runs `command`, after `grace_s` in which the controller stores that the node will boot."""

    def __init__(self, command: str, grace_s: float, telemetry: spans.Telemetry) -> None:
        self._command = shlex.split(command)
        self._grace_s = grace_s
        self._telemetry = telemetry

    async def __call__(self, traceparent: str) -> Outcome:
        """Boot; what returns says why the node did not."""
        await clock.sleep(self._grace_s)
        step = self._telemetry.begin("boot node", traceparent)
        told = logs.about(trace=step.trace_id)
        log.warning("the node is booted: a MIG mode needs it", extra=told)
        sentence = await self._run()
        self._telemetry.end(step, error=sentence)
        if not sentence:
            await clock.sleep(GOES_DOWN_S)
            sentence = f"the node still runs {GOES_DOWN_S:g} s after it was told to boot"
        log.error("%s", sentence, extra=told)
        return Outcome(reason=Reason.REBOOT_REQUIRED, sentence=sentence)

    async def _run(self) -> str:
        """Run the command; say what went wrong, empty if nothing did."""
        words = " ".join(self._command)
        try:
            running = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            return f"{words} cannot be run ({error.strerror}): boot the node by hand"
        output, _ = await running.communicate()
        if running.returncode == 0:
            return ""
        said = " ".join(output.decode(errors="replace").split())
        return f"{words} failed (status {running.returncode}): {said or 'it said nothing'}"
