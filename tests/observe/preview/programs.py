"""What pictures are drawn by: Grafana's components as one bundle, Chromium, Zipkin."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator

from tests.kube import build as packages
from tests.kube import places, processes
from tests.observe import backends
from tests.observe.build import run

HERE = pathlib.Path(__file__).parent
SOURCES = ("package.json", "page.jsx", "data.js", "scrollbars.mjs", "index.html")
FOLDER = places.cache() / "programs" / "preview"
ZIPKIN = "io.zipkin:zipkin-server:3.5.1:jar:exec"
JAR = places.cache() / "programs" / "zipkin-3.5.1.jar"
DRAW_MS = 15_000  # of the page's own time, which passes faster than ours
LOADERS = ("svg", "woff2", "woff", "png", "ttf")


def get_all() -> Iterator[str]:
    """Get what is missing; yield a line for each thing done.

    Raises:
        CannotBuildError: the machine lacks something that we cannot get.
    """
    yield from packages.install(["chromium", "fonts-dejavu-core"])
    yield from _bundle()
    if not JAR.exists():
        run(
            "mvn",
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={ZIPKIN}",
            f"-DoutputDirectory={JAR.parent}",
            "-Dmdep.stripVersion=true",
        )
        (JAR.parent / "zipkin-server-exec.jar").rename(JAR)
        yield f"got {ZIPKIN}"


def _bundle() -> Iterator[str]:
    """Put the page and Grafana's components into one file, where the sources are other ones."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((HERE / name).read_bytes())
    stamp = FOLDER / "stamp"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest.hexdigest():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        shutil.copy(HERE / name, FOLDER / name)
    run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", folder=str(FOLDER))
    run(
        "npx",
        "esbuild",
        "page.jsx",
        "--bundle",
        "--minify",
        "--outfile=bundle.js",
        '--define:process.env.NODE_ENV="production"',
        "--jsx=transform",
        "--log-level=warning",
        "--alias:react-custom-scrollbars-2=./scrollbars.mjs",
        *(f"--loader:.{each}=dataurl" for each in LOADERS),
        folder=str(FOLDER),
    )
    stamp.write_text(digest.hexdigest(), encoding="utf-8")
    yield f"bundled Grafana's components into {FOLDER}"


def shoot(url: str, picture: pathlib.Path, width: int, height: int) -> list[str]:
    """Draw a page into a file; return what it said on its console."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--enable-logging=stderr", f"--user-data-dir={profile}",
            f"--window-size={width},{height}", f"--virtual-time-budget={DRAW_MS}",
            f"--screenshot={picture}", url,
        ]  # fmt: skip
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return re.findall(r'CONSOLE[^"]*"(.*?)", source', said)


@contextlib.contextmanager
def zipkin(folder: pathlib.Path) -> Iterator[str]:
    """Run Zipkin on this machine alone; its address."""
    running = processes.Processes(folder)
    port = backends.free_port()
    address = f"http://{backends.HERE}:{port}"
    listening = {"ip": backends.HERE, "port": port, "protocols[0]": "http"}
    given = [f"-Darmeria.ports[0].{name}={value}" for name, value in listening.items()]
    running.start("zipkin", ["java", "-Xmx256m", *given, "-jar", JAR])
    try:
        running.ready("zipkin", lambda: _answers(f"{address}/health"))
        yield address
    finally:
        running.stop("zipkin")


def _answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
