"""Resets one GPU with nvidia-smi, which NVML itself does not offer.

The reconfigurer's agent calls it when a MIG mode stays pending, after everybody has let NVML go.
"""

from __future__ import annotations

import asyncio

from shared.nvml import errors

_IN_USE = ("in use by another", "currently being used by")


async def reset(gpu_uuid: str, *, program: str = "nvidia-smi", within_s: float = 120.0) -> None:
    """Reset the GPU with this UUID and no other. What runs on it is lost, as are its instances.

    Raises:
        errors.InUseError: something holds it.
        errors.SilentError: the program did not end in time, and was ended.
        errors.ResetFailedError: it failed, or is not here.
    """
    try:
        running = await asyncio.create_subprocess_exec(
            program,
            "--gpu-reset",
            "-i",
            gpu_uuid,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise errors.ResetFailedError(
            f"{program} cannot be run ({error.strerror}): mount it from the driver, or reboot"
        ) from error
    output = await _output(running, gpu_uuid, within_s)
    if running.returncode != 0:
        raise _refusal(gpu_uuid, running.returncode, output)


async def _output(running: asyncio.subprocess.Process, gpu_uuid: str, within_s: float) -> str:
    try:
        async with asyncio.timeout(within_s):
            output, _ = await running.communicate()
    except TimeoutError:
        raise errors.SilentError(
            f"the reset of {gpu_uuid} did not end within {within_s:g} s: reboot the node"
        ) from None
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    return output.decode(errors="replace")


def _refusal(gpu_uuid: str, status: int | None, output: str) -> errors.NvmlError:
    said = " ".join(output.split())
    if any(words in said for words in _IN_USE):
        return errors.InUseError(f"{gpu_uuid} is in use by another client and was not reset")
    return errors.ResetFailedError(
        f"{gpu_uuid} was not reset (status {status}): {said or 'nvidia-smi said nothing'}"
    )
