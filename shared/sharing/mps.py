"""What MPS asks of a GPU that is to be shared by it, and what each of its clients gets.

`shares` refuses by it what no daemon could serve; the MPS service sets the limits of its daemons.
"""

from __future__ import annotations

from shared.domain.errors import Place
from shared.domain.gpu import Gpu
from shared.sharing.findings import Findings

# NVIDIA's MPS documentation: Volta and later take 48 clients a GPU (60 from CUDA 13.1 on), others
# 16. The smaller number is right with every driver.
MOST_CLIENTS = 48
MOST_CLIENTS_BEFORE_VOLTA = 16
VOLTA = (7, 0)
# A CUDA context and the libraries around it take some hundred MiB before any work of their own.
FLOOR_MIB = 512


def most_clients(gpu: Gpu) -> int:
    """How many clients one MPS server takes on this GPU."""
    return MOST_CLIENTS if gpu.compute_capability >= VOLTA else MOST_CLIENTS_BEFORE_VOLTA


def memory_mib(gpu: Gpu, replicas: int) -> int:
    """How much of the GPU's memory each client may pin."""
    return gpu.memory_mib // replicas


def thread_percentage(replicas: int) -> int:
    """How many of a hundred of the GPU's threads each client may use."""
    return max(100 // replicas, 1)


def check(
    gpu: Gpu, path: str, replicas: int, places: tuple[Place, Place], findings: Findings
) -> None:
    """Say what stands against sharing a GPU so; `places` are those of the entry and of its number.

    A MIG device is none of its own here: NVIDIA's plugin serves no MPS on one either.
    """
    entry, number = places
    most = most_clients(gpu)
    if gpu.mig_enabled:
        findings.add(
            entry,
            path,
            f"MPS does not go with MIG, and GPU {gpu.index} is in MIG mode",
            "share its MIG devices by timeSlicing, or name the other GPUs under devices",
        )
    elif replicas > most:
        message = (
            f"{replicas} replicas, but MPS takes {most} clients on GPU {gpu.index} ({gpu.model})"
        )
        findings.add(number, f"{path}.replicas", message, f"write {most} or fewer")
    elif memory_mib(gpu, replicas) < FLOOR_MIB:
        message = (
            f"each client of GPU {gpu.index} gets {memory_mib(gpu, replicas)} MiB of its"
            f" {gpu.memory_mib} MiB; below {FLOOR_MIB} MiB many programs do not start"
        )
        findings.warn(number, f"{path}.replicas", message)
