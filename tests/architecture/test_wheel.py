"""The wheel holds our two folders and nothing else, and nobody else owns their names (ADR 0001)."""

from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys
import sysconfig
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NAMES = {"services", "shared"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("slicewire-*.whl")
    return built


def test_the_wheel_holds_services_and_shared_and_nothing_else(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == NAMES


def test_every_package_of_the_wheel_is_a_regular_one(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    folders = {str(pathlib.PurePosixPath(name).parent) for name in names if name.endswith(".py")}
    assert {folder for folder in folders if f"{folder}/__init__.py" not in names} == set()


def test_slicewire_alone_owns_its_two_names_where_the_wheel_is_installed(
    wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(tmp_path), str(wheel)], check=True)
    owners: set[tuple[str, str]] = set()
    places = [str(tmp_path), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    for distribution in importlib.metadata.distributions(path=places):
        owners |= {
            (file.parts[0], distribution.metadata["Name"])
            for file in distribution.files or ()
            if file.parts[0] in NAMES
        }
    assert owners == {(name, "slicewire") for name in NAMES}
