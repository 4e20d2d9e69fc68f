"""Files of this machine → an image, without a registry.

An archive is an OCI layout in a tar: one layer, the same bytes for the same files.
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import tarfile
from collections.abc import Mapping, Sequence

from tests.kube import build

MEDIA = "application/vnd.oci.image"
PAUSE = "slicewire.test/pause:1"
COREDNS = "slicewire.test/coredns:1"
POLICIES = "slicewire.test/network-policies:1"
BUSYBOX = pathlib.Path("/bin/busybox")
WAITS = 'trap "exit 0" TERM; sleep 2147483647 & wait'  # the first process ends on a signal
TOOLS = ("cat", "env", "false", "httpd", "ls", "nc", "sh", "sleep", "stat", "true", "wget")


def pause(folder: pathlib.Path) -> pathlib.Path:
    """An image that waits to be ended, with a shell and some tools to look around in it."""
    files = {"bin/busybox": BUSYBOX}
    links = {f"bin/{tool}": "busybox" for tool in TOOLS}
    return archive(folder, PAUSE, files, ("/bin/sh", "-c", WAITS), links)


def coredns(folder: pathlib.Path) -> pathlib.Path:
    """The cluster's DNS."""
    return archive(folder, COREDNS, {"coredns": build.program("coredns")}, ("/coredns",))


def policies(folder: pathlib.Path) -> pathlib.Path:
    """Who makes NetworkPolicies hold."""
    name = "kube-network-policies"
    return archive(folder, POLICIES, {name: build.program(name)}, (f"/{name}",))


def archive(
    folder: pathlib.Path,
    name: str,
    files: Mapping[str, pathlib.Path],
    command: Sequence[str],
    links: Mapping[str, str] | None = None,
) -> pathlib.Path:
    """Write an archive of an image and return its path."""
    layer = _layer(files, links or {})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    settings = json.dumps(config).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": _described("config.v1+json", settings),
            "layers": [_described("layer.v1.tar", layer)],
        }
    ).encode()
    named = {"annotations": {"io.containerd.image.name": name}}
    index = {"schemaVersion": 2, "manifests": [_described("manifest.v1+json", manifest) | named]}
    path = folder / f"{name.replace('/', '_').replace(':', '_')}.tar"
    with tarfile.open(path, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for blob in (layer, settings, manifest):
            _add(tar, f"blobs/{_digest(blob).replace(':', '/')}", blob)
    return path


def _layer(files: Mapping[str, pathlib.Path], links: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder in sorted({path.rpartition("/")[0] for path in (*files, *links)} | {"tmp"}):
            if folder:
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
                tar.addfile(entry)
        for path, source in sorted(files.items()):
            _add(tar, path, source.read_bytes(), 0o755)
        for path, target in sorted(links.items()):
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return content.getvalue()


def _add(tar: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _described(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": f"{MEDIA}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
