"""The kernel's boot id: files written on another boot are memories, not facts."""

from __future__ import annotations

import pathlib

KERNEL_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id(path: str = KERNEL_BOOT_ID) -> str:
    """Read the id of the running boot; an unreadable file gives "unknown", equal to no boot."""
    try:
        return pathlib.Path(path).read_text(encoding="ascii").strip() or "unknown"
    except (OSError, UnicodeDecodeError):
        return "unknown"
