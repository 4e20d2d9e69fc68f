"""Series as NVIDIA's dcgm-exporter writes them, of the GPUs of a rehearsal.

Its form is kept: labels `gpu`, `UUID` and `Hostname`, and of a MIG instance `GPU_I_PROFILE` and
`GPU_I_ID` beside its GPU's UUID. Utilization is told of whole GPUs, the profiling and memory fields
of instances as well. `pod` names whom it believes to have the GPU: with several, one of them.
"""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator, Mapping

from services.views.book import Book
from shared.contract.messages import Inventory
from shared.domain.gpu import Gpu, MigDevice

UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
MEMORY_USED = "DCGM_FI_DEV_FB_USED"
HELP = {
    UTILIZATION: "GPU utilization (in %).",
    ENGINE_ACTIVE: "Ratio of time the graphics engine is active.",
    MEMORY_USED: "Framebuffer memory used (in MiB).",
}
Labels = Mapping[str, str]


class Exporter:
    """An HTTP server in a thread of its own; `text` is what it shows."""

    def __init__(self) -> None:
        self.text = ""
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = owner.text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Be quiet."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"


@contextlib.contextmanager
def exporter() -> Iterator[Exporter]:
    """Show a text until the block ends."""
    shown = Exporter()
    thread = threading.Thread(target=shown.server.serve_forever, name="dcgm-exporter")
    thread.start()
    try:
        yield shown
    finally:
        shown.server.shutdown()
        shown.server.server_close()
        thread.join()


def exposition(book: Book) -> str:
    """What an exporter on each node would show now."""
    series: dict[str, list[str]] = {name: [] for name in HELP}
    for node, inventory in sorted(book.inventories.items()):
        for name, labels, value in _of_node(node, inventory):
            written = ",".join(f'{key}="{text}"' for key, text in labels.items())
            series[name].append(f"{name}{{{written}}} {value}")
    lines = []
    for name, found in series.items():
        lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge", *found]
    return "\n".join(lines) + "\n"


def _of_node(node: str, inventory: Inventory) -> Iterator[tuple[str, Labels, float]]:
    for gpu in inventory.gpus:
        labels = _labels(node, gpu)
        if not gpu.mig_devices:
            yield UTILIZATION, labels, 40 + gpu.index
            yield MEMORY_USED, labels, 1000 + gpu.index
        for device in gpu.mig_devices:
            own = labels | _instance(device)
            yield ENGINE_ACTIVE, own, 0.5 + device.gpu_instance / 100
            yield MEMORY_USED, own, 100 + device.gpu_instance


def _labels(node: str, gpu: Gpu) -> dict[str, str]:
    return {
        "gpu": str(gpu.index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id,
        "device": f"nvidia{gpu.minor}",
        "modelName": gpu.model,
        "Hostname": node,
        "namespace": "default",
        "pod": "somebody",
        "container": "main",
    }


def _instance(device: MigDevice) -> dict[str, str]:
    return {"GPU_I_PROFILE": device.profile, "GPU_I_ID": str(device.gpu_instance)}
