"""`make pictures`: play the story, then draw each dashboard and the trace of its MIG change.

Needs root on Debian, Node with npm, and Java with Maven. Dashboards are drawn by Grafana's own
components, which is a preview and not Grafana; the trace by Zipkin. The pictures go to
docs/pictures, and have to be looked at.
"""

from __future__ import annotations

import contextlib
import http.server
import pathlib
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator

from deploy.dashboards import __main__ as dashboards
from deploy.dashboards.form import Dashboard
from tests.kube.build import CannotBuildError
from tests.observe import backends, build, recording
from tests.observe.preview import programs
from tests.observe.recording import Recording

PICTURES = pathlib.Path(__file__).parents[3] / "docs" / "pictures"
WIDTH, ROW, HEAD = 1400, 38, 56
BEFORE_S = 15  # of what led to the first part of the story
NODES = {"node": "gpu-a"}


def main() -> int:
    """Draw all; exit status 1 where a panel could not be drawn."""
    try:
        for line in (*build.build_all(), *programs.get_all()):
            print(f"make pictures: {line}", flush=True)
    except CannotBuildError as error:
        sys.stderr.write(f"make pictures: NOTHING WAS DRAWN. {error}\n")
        return 1
    PICTURES.mkdir(exist_ok=True)
    troubles = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        zipkin = stack.enter_context(programs.zipkin(pathlib.Path(folder)))
        recorded = stack.enter_context(recording.recorded(pathlib.Path(folder), zipkin))
        served = stack.enter_context(_served())
        for page in dashboards.PAGES:
            troubles += _draw(page, recorded, served)
        programs.shoot(
            f"{zipkin}/zipkin/traces/{_change(recorded)}", PICTURES / "zipkin.png", 1100, 1620
        )
    for trouble in troubles:
        sys.stderr.write(f"make pictures: {trouble}\n")
    return int(bool(troubles))


def _draw(page: Dashboard, recorded: Recording, served: str) -> list[str]:
    """Draw one dashboard as of the story's last part; say what could not be drawn."""
    moments = list(recorded.moments.values())
    asked = {
        "dashboard": f"/chart/dashboards/{page.name}.json",
        "prometheus": recorded.prometheus.url,
        "from": moments[0] - BEFORE_S,
        "to": moments[-1],
        "node": NODES["node"],
    }
    height = ROW * sum(row.height for row in page.rows) + HEAD
    url = f"{served}/preview/index.html?{urllib.parse.urlencode(asked)}"
    said = programs.shoot(url, PICTURES / f"dashboard-{page.name}.png", WIDTH, height)
    return [f"{page.title}: {line}" for line in said if "drawn" not in line]


def _change(recorded: Recording) -> str:
    """The trace of the change that cut a GPU anew."""
    spans = recorded.collector.spans()
    return str(next(span["traceId"] for _, span in spans if span["name"] == "cut GPU"))


@contextlib.contextmanager
def _served() -> Iterator[str]:
    """Serve the page under /preview and the dashboards under /chart, on this machine alone."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            _, first, *rest = urllib.parse.urlsplit(path).path.split("/")
            return str(FOLDERS.get(first, programs.FOLDER).joinpath(*rest))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Be quiet."""

    server = http.server.ThreadingHTTPServer((backends.HERE, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="page")
    thread.start()
    try:
        yield f"http://{backends.HERE}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


FOLDERS = {"preview": programs.FOLDER, "chart": dashboards.FOLDER.parent}


if __name__ == "__main__":
    sys.exit(main())
