"""`slicewire simulate` as processes: an owner, and a service's main that runs on its GPUs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.simulation.gpu import simulate
from shared.simulation.gpu.control import Control

OWNER = """
import sys
from shared.simulation.gpu import simulate

sys.exit(simulate.main(sys.argv[1:], len))
"""
SERVICE = """
import json, sys
from shared.simulation.gpu import simulate

def run(argv):
    from shared.nvml import driver
    nvml = driver.PynvmlDriver()
    nvml.open()
    gpus = [nvml.gpu(index) for index in range(nvml.count())]
    heavy = sorted({"yaml", "pydantic", "shared.simulation.gpu.catalogue"} & set(sys.modules))
    print(json.dumps({"argv": argv, "models": [gpu.model for gpu in gpus],
                      "profiles": [each.profile for gpu in gpus for each in gpu.mig_devices],
                      "heavy": heavy}))
    nvml.close()
    return 7

sys.exit(simulate.main(sys.argv[1:], run))
"""


@contextlib.asynccontextmanager
async def process(code: str, *argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a Python program with these arguments, and end it."""
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        *argv,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def test_a_service_runs_on_the_owners_gpus(tmp_path: Path) -> None:
    """The service gets its arguments, sees the GPUs, carries no catalogue; its status counts."""
    path = tmp_path / "gpu.sock"
    socket = str(path)
    specs = tmp_path / "gpus.yaml"
    await asyncio.to_thread(
        specs.write_text,
        "- t4\n- {model: a30-24gb, instances: [{profile: 2g.12gb, start: 2}]}\n",
    )
    async with (
        process(OWNER, "--socket", socket, "--node", "gpu-a", "--gpus", f"@{specs}") as owner,
        process(SERVICE, "--socket", socket, "--", "advertiser", "--node-name", "gpu-a") as service,
    ):
        out, _ = await service.communicate()
        assert json.loads(out) == {
            "argv": ["advertiser", "--node-name", "gpu-a"],
            "models": ["Tesla T4", "NVIDIA A30"],
            "profiles": ["2g.12gb"],
            "heavy": [],
        }
        assert service.returncode == 7
        await Control(path).ready()
        owner.send_signal(signal.SIGTERM)
        assert await owner.wait() == 0
        assert not await asyncio.to_thread(path.exists)


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ("a100", "GPU 0 of gpu-a: there is no GPU model 'a100' in the catalogue"),
        ("@missing.yaml", "No such file"),
    ],
)
def test_gpus_that_cannot_be_simulated_end_with_2(
    gpus: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence goes to standard error; nothing listens."""
    argv = ["--socket", str(tmp_path / "s"), "--node", "gpu-a", "--gpus", gpus]
    assert simulate.main(argv, len) == 2
    assert words in capsys.readouterr().err


def test_neither_owner_nor_service_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    """The command says what it needs."""
    with pytest.raises(SystemExit, match="2"):
        simulate.main(["--socket", "s"], len)
    assert "or -- SERVICE to run one on them" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "words"), [("xid 79", "is no JSON"), ("[79]", "is no map")])
@pytest.mark.parametrize("flag", ["--fault", "--heal"])
def test_a_fault_that_is_no_map_is_a_wrong_call(
    flag: str, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anybody is asked; what was written stands in the sentence."""
    with pytest.raises(SystemExit, match="2"):
        simulate.main(["--socket", "s", flag, text], len)
    assert f"argument {flag}: {text!r} {words}" in capsys.readouterr().err


def test_a_fault_of_gpus_that_nobody_owns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, with the socket."""
    assert simulate.main(["--socket", str(tmp_path / "s"), "--fault", "{}"], len) == 1
    assert f"nobody owns GPUs at {tmp_path / 's'}" in capsys.readouterr().err
