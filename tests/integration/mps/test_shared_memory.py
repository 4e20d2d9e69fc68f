"""The tmpfs of daemons and clients, mounted for real where nobody else sees it."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

PROGRAM = """
    import os, pathlib
    from services.reconfigurer.mps import shared_memory

    folder, here = pathlib.Path("mps/shm"), pathlib.Path("here")
    here.mkdir()
    for _ in range(2):  # again in a container that starts anew: nothing is mounted twice
        shared_memory.mount(folder, 3, here)
    (folder / "cuda.shm").write_text("x")
    assert (here / "cuda.shm").read_text() == "x"
    size = os.statvfs(here)
    assert size.f_frsize * size.f_blocks == 3 << 20
    assert here.stat().st_mode & 0o7777 == 0o1777
    mounts = [line.split() for line in open("/proc/self/mounts") if "slicewire-mps" in line]
    assert len(mounts) == 2, mounts
    assert all({"nosuid", "nodev", "noexec"} <= set(each[3].split(",")) for each in mounts)
    shared_memory.unmount(folder, here)
    assert not (here / "cuda.shm").exists()
    assert not os.path.ismount(folder)
    try:
        shared_memory.unmount(folder, here)
    except OSError as error:
        assert "here" in str(error), error
    else:
        raise AssertionError("unmounted twice")
"""


def test_daemons_and_clients_meet_in_a_tmpfs_of_their_own(tmp_path: pathlib.Path) -> None:
    """Bounded, for every user, once however often it is asked for, and taken away again."""
    program = textwrap.dedent(PROGRAM)
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(pathlib.Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
