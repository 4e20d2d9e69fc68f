"""Certificates of a throw-away cluster, and kubeconfigs made of them."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Sequence

from tests.kube.processes import output
from tests.suites.kube_cluster import Credentials

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")
NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
DOMAIN = "cluster.local"
EMPTY_CONFIG = "[req]\ndistinguished_name = dn\n[dn]\n"  # nothing of the machine's own


class Pki:
    """A folder of keys and certificates, all signed by one authority."""

    def __init__(self, folder: pathlib.Path, server: str) -> None:
        self._folder = folder
        self._server = server

    @property
    def ca(self) -> pathlib.Path:
        """The authority's certificate."""
        return self.certificate("ca")

    def certificate(self, name: str) -> pathlib.Path:
        """The file of a certificate."""
        return self._folder / f"{name}.crt"

    def key(self, name: str) -> pathlib.Path:
        """The file of a key."""
        return self._folder / f"{name}.key"

    def create(self) -> None:
        """Make the authority and the key of service account tokens."""
        self._folder.mkdir(parents=True)
        self._config.write_text(EMPTY_CONFIG, encoding="utf-8")
        extensions = ("-addext", "basicConstraints=critical,CA:TRUE")
        self._request("ca", "/CN=test", *extensions, "-addext", "keyUsage=keyCertSign")
        private, public = self.key("accounts"), self._folder / "accounts.pub"
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        output("openssl", "genpkey", *curve, "-out", private)
        output("openssl", "pkey", "-in", private, "-pubout", "-out", public)

    def issue(self, name: str, user: str, group: str = "", serves: Sequence[str] = ()) -> None:
        """Make a certificate with which a user is known, and as which addresses are served."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        extensions = ["basicConstraints=CA:FALSE", "extendedKeyUsage=clientAuth,serverAuth"]
        if serves:
            extensions.append(f"subjectAltName={','.join(serves)}")
        added = [word for each in extensions for word in ("-addext", each)]
        self._request(name, subject, *added, "-CA", str(self.ca), "-CAkey", str(self.key("ca")))

    def kubeconfig(self, name: str) -> pathlib.Path:
        """Make the file with which a program acts as the user of a certificate."""
        user = {
            "client-certificate-data": _encoded(self.certificate(name)),
            "client-key-data": _encoded(self.key(name)),
        }
        cluster = {"server": self._server, "certificate-authority-data": _encoded(self.ca)}
        context = {"cluster": "test", "user": name}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        path = self._folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")
        return path

    def credentials(self, name: str) -> Credentials:
        """How a client of ours shows itself as the user of a certificate."""
        return Credentials(self.ca, self.certificate(name), self.key(name))

    @property
    def _config(self) -> pathlib.Path:
        return self._folder / "openssl.cnf"

    def _request(self, name: str, subject: str, *more: str) -> None:
        files = ("-keyout", self.key(name), "-out", self.certificate(name))
        made = ("openssl", "req", "-x509", "-config", self._config, *EC, *files)
        output(*made, "-subj", subject, *more)


def _encoded(path: pathlib.Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
