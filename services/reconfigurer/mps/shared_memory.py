"""The shared memory through which MPS daemons and their clients meet: a tmpfs of bounded size.

It stands below the folder that the host shares with this service, so that clients can be given it
as their /dev/shm; the daemons get it as theirs. Needs the right to mount. Calls block.
"""

from __future__ import annotations

import ctypes
import os
import pathlib

HERE = pathlib.Path("/dev/shm")  # noqa: S108  # where POSIX has shared memory
SOURCE = "slicewire-mps"
_NOSUID, _NODEV, _NOEXEC, _BIND = 2, 4, 8, 4096
_DETACH = 2


def mount(folder: pathlib.Path, mib: int, here: pathlib.Path = HERE) -> None:
    """Have a tmpfs in the folder, and the same one under `here`; nothing happens where it is.

    Raises:
        OSError: without the right to mount.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not os.path.ismount(folder):
        flags = _NOSUID | _NODEV | _NOEXEC
        _mount(SOURCE, folder, "tmpfs", flags, f"size={mib}m,mode=1777")
    if folder.stat().st_dev != here.stat().st_dev:
        _mount(str(folder), here, "", _BIND, "")


def unmount(folder: pathlib.Path, here: pathlib.Path = HERE) -> None:
    """Take it away again; containers that have it keep it until they end.

    Raises:
        OSError: without the right to unmount.
    """
    for place in (here, folder):
        _checked(_libc().umount2(os.fsencode(place), _DETACH), place)


def _mount(source: str, target: pathlib.Path, kind: str, flags: int, options: str) -> None:
    result = _libc().mount(
        source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()
    )
    _checked(result, target)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, place: pathlib.Path) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} (mount)", str(place))
