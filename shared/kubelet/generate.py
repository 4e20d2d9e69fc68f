"""Turn the proto texts of this package into the stubs beside them: `make proto`.

Run from anywhere as `python -m shared.kubelet.generate`; with `--check` it writes nothing and ends
with status 1 when a committed stub is not what its proto text gives.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOS = ("shared/kubelet/v1beta1/api.proto", "shared/kubelet/podresources/v1/api.proto")
STUBS = ("api_pb2.py", "api_pb2.pyi", "api_grpc.py")


def generate(output: pathlib.Path) -> list[pathlib.Path]:
    """Write the stubs below `output`, at the paths they have in the repository; return those."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT}"]
    command += [f"--{kind}={output}" for kind in ("python_out", "pyi_out", "grpclib_python_out")]
    # The plugin grpclib_python stands beside the interpreter, which need not be on PATH.
    plugin = pathlib.Path(sys.executable).parent / "protoc-gen-grpclib_python"
    command.append(f"--plugin=protoc-gen-grpclib_python={plugin}")
    subprocess.run([*command, *PROTOS], check=True)  # noqa: S603 - fixed arguments, own files
    return [pathlib.Path(proto).parent / stub for proto in PROTOS for stub in STUBS]


def stale(fresh: pathlib.Path, stubs: list[pathlib.Path]) -> list[pathlib.Path]:
    """Return those of `stubs` whose committed text differs from the one below `fresh`."""
    return [stub for stub in stubs if not same(ROOT / stub, fresh / stub)]


def same(committed: pathlib.Path, fresh: pathlib.Path) -> bool:
    """Whether a committed stub exists and is what was generated now."""
    return committed.exists() and committed.read_bytes() == fresh.read_bytes()


def main(argv: list[str] | None = None) -> int:
    """Generate in place, or compare with `--check`."""
    parser = argparse.ArgumentParser(prog="shared.kubelet.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a diff")
    if not parser.parse_args(argv).check:
        generate(ROOT)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fresh = pathlib.Path(folder)
        differing = stale(fresh, generate(fresh))
    for stub in differing:
        sys.stderr.write(f"{stub} is not what its api.proto gives; run `make proto`\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
