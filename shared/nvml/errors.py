"""NVML's return codes as errors of the trade: what happened, where, and what to do next."""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """NVML's return codes, by the names that its header gives them."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    ALREADY_INITIALIZED = 5
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    INSUFFICIENT_RESOURCES = 23
    ARGUMENT_VERSION_MISMATCH = 25
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    UNKNOWN = 999


class NvmlError(Exception):
    """NVML refused a call; the text is a sentence for logs and Events."""


class AwayError(NvmlError):
    """There is no driver to talk to, or it forgot us: close, and open again later."""


class LostError(NvmlError):
    """The GPU no longer answers."""


class ResetRequiredError(NvmlError):
    """The GPU works again only after a reset."""


class NotSupportedError(NvmlError):
    """This GPU, driver or mode does not have what was asked for."""


class InUseError(NvmlError):
    """Something still uses what was to be changed."""


class NoRoomError(NvmlError):
    """Another instance has what this one would need."""


class ResetFailedError(NvmlError):
    """The GPU was not reset, for another reason than that it is in use."""


class NotFoundError(NvmlError):
    """Nothing stands under this index or id."""


class PermissionDeniedError(NvmlError):
    """The process may not do this."""


class SilentError(NvmlError):
    """A call has not returned by its deadline; its GPU is not called until it does."""


class StillHeldError(NvmlError):
    """NVML cannot be let go while a call has not returned."""


_MEANINGS: dict[Code, tuple[type[NvmlError], str]] = {
    Code.UNINITIALIZED: (AwayError, "the driver was reloaded, or NVML was let go: open it again"),
    Code.DRIVER_NOT_LOADED: (AwayError, "load the NVIDIA driver on this node"),
    Code.LIBRARY_NOT_FOUND: (
        AwayError,
        "libnvidia-ml.so.1 is not here: mount the driver's libraries",
    ),
    Code.LIB_RM_VERSION_MISMATCH: (
        AwayError,
        "library and kernel module are of different driver versions: restart this pod,"
        " or reboot the node",
    ),
    Code.GPU_IS_LOST: (LostError, "the GPU has fallen off the bus: reset it or reboot the node"),
    Code.GPU_NOT_FOUND: (LostError, "the GPU is gone from the bus: reseat it or reboot the node"),
    Code.RESET_REQUIRED: (ResetRequiredError, "reset the GPU"),
    Code.NOT_SUPPORTED: (NotSupportedError, "this GPU or driver does not have it"),
    Code.FUNCTION_NOT_FOUND: (NotSupportedError, "the driver is too old for this call: update it"),
    Code.NOT_FOUND: (NotFoundError, "nothing stands under this index or id"),
    Code.IN_USE: (InUseError, "end the processes that use it, or wait for them"),
    Code.INSUFFICIENT_RESOURCES: (
        NoRoomError,
        "another instance has the place: look at the GPU again",
    ),
    Code.NO_PERMISSION: (PermissionDeniedError, "run the service as root"),
}


def code(number: int) -> Code:
    """Read a return code; one that is newer than this list is UNKNOWN."""
    return Code(number) if number in Code.__members__.values() else Code.UNKNOWN


def error_of(code: int, doing: str) -> NvmlError:
    """Make the domain error for a return code; `doing` says what was tried, on which GPU."""
    try:
        known = Code(code)
    except ValueError:
        return NvmlError(f"NVML answered with the unknown code {code} while {doing}")
    kind, advice = _MEANINGS.get(known, (NvmlError, "see the driver's log (dmesg) on this node"))
    return kind(f"NVML answered {known.name} while {doing}: {advice}")
