"""Debian packages → root file systems with Python, as the Dockerfile's BUILD and RUNTIME.

The public bases cannot be had without a registry. `run` is less than any of them: no shell, no
package manager, so what the images need of their base is what stands here.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

EPOCH = "1767225600"  # every file has this time, so that the same packages give the same bytes
SUITE = "bookworm"
RUN = (
    "base-files,base-passwd,ca-certificates,libc-bin,libpython3-stdlib,libstdc++6,netbase,"
    "python3,python3-minimal"
)
BUILD = f"{RUN},coreutils,dash,grep,python3-venv,sed"
LEFT_OUT = ("bash-completion", "doc", "lintian", "locale", "man", "perl5")
REMOVED = "etc/resolv.conf etc/hostname var/lib/dpkg/info var/cache usr/lib/python3.11/lib2to3"
REMOVED_TO_RUN = "usr/bin/openssl usr/bin/gpgv sbin/ldconfig"
USERS = (
    'cp "$1"/usr/share/base-passwd/passwd.master "$1"/etc/passwd',
    'cp "$1"/usr/share/base-passwd/group.master "$1"/etc/group',
    'cat "$1"/usr/share/ca-certificates/mozilla/*.crt > "$1"/etc/ssl/certs/ca-certificates.crt',
)
COMPILE = (
    'PYTHONHASHSEED=0 chroot "$1" /usr/bin/python3 -m compileall -q -s / '
    "--invalidation-mode unchecked-hash /usr/lib/python3.11 >/dev/null || true"
)  # some files of the library are broken on purpose, for its tests


def write(kind: str, path: pathlib.Path) -> None:
    """Write the base `run` or `build` as a tar."""
    is_run = kind == "run"
    removed = f"{REMOVED} {REMOVED_TO_RUN}" if is_run else REMOVED
    hooks = [*USERS, 'cd "$1" && rm -rf ' + removed, *([COMPILE] if is_run else [])]
    subprocess.run(
        [
            "mmdebstrap",
            "--quiet",
            "--variant=extract",  # runs no package's scripts; only extract hooks run
            f"--include={RUN if is_run else BUILD}",
            *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in LEFT_OUT),
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            *(f"--extract-hook={each}" for each in hooks),
            SUITE,
            str(path),
        ],
        env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH},
        check=True,
    )
