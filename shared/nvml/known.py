"""What was known of the GPUs, and what they answer now, make what is reported. Pure.

A GPU that does not answer is reported as it was last seen, with the verdict and its reason; the
moment since when is that of the first such look, so unchanged hardware gives equal values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from shared.domain.gpu import Gpu, Health, HealthState
from shared.nvml import errors


def merge(
    known: Sequence[Gpu], answers: Sequence[Gpu | errors.NvmlError], now_ns: int
) -> tuple[Gpu, ...]:
    """Return all GPUs in index order; `answers` stand at the indexes that NVML lists now.

    A GPU that fails before it was ever read cannot be named, and is left out.
    """
    answered = {answer.uuid: answer for answer in answers if isinstance(answer, Gpu)}
    missing = [gpu for gpu in known if gpu.uuid not in answered]
    reported = list(answered.values())
    for gpu in missing:
        listed = gpu.index < len(answers)
        error = answers[gpu.index] if listed else None
        verdict = verdict_of(error) if isinstance(error, errors.NvmlError) else _unlisted(gpu)
        reported.append(_with_verdict(gpu, verdict, now_ns))
    return tuple(sorted(reported, key=lambda gpu: (gpu.index, gpu.uuid)))


def verdict_of(error: errors.NvmlError) -> Health:
    """Say what an answer of NVML makes of the GPU it is about."""
    if isinstance(error, errors.LostError):
        state = HealthState.LOST
    elif isinstance(error, errors.SilentError):
        state = HealthState.SILENT
    else:
        state = HealthState.SICK
    return Health(state=state, reason=str(error))


def _unlisted(gpu: Gpu) -> Health:
    return Health(
        state=HealthState.LOST,
        reason=f"NVML no longer lists this GPU, which was at index {gpu.index}:"
        " reset it or reboot the node",
    )


def _with_verdict(gpu: Gpu, verdict: Health, now_ns: int) -> Gpu:
    if gpu.health.state is verdict.state:
        return gpu
    return dataclasses.replace(gpu, health=dataclasses.replace(verdict, since_ns=now_ns))
