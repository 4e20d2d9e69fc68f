"""etcd, API server, controller manager and scheduler, as a test cluster needs them."""

from __future__ import annotations

import json
import signal
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass

from tests.kube import build, network
from tests.kube.pki import DOMAIN, NAMES, Pki
from tests.kube.processes import Processes

ETCD = "http://127.0.0.1:2379"
ETCD_PEERS = "http://127.0.0.1:2380"
API_PORT = 6443
API = f"https://127.0.0.1:{API_PORT}"
SERVICES = "10.96.0.0/24"
API_SERVICE = "10.96.0.1"
APISERVER = "kube-apiserver"
MANAGER_PORT, SCHEDULER_PORT = 10257, 10259


@dataclass(frozen=True)
class ControlPlane:
    """Starts the parts, and the API server again."""

    processes: Processes
    pki: Pki
    data: str

    def start(self) -> None:
        """Start everything, in the order in which the parts need each other."""
        self._issue()
        self._start_etcd()
        self.start_apiserver()
        self._start("kube-controller-manager", MANAGER_PORT, self._manager_flags())
        self._start("kube-scheduler", SCHEDULER_PORT, ())

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        argv = [build.program(APISERVER), *self._apiserver_flags()]
        self.processes.start(APISERVER, network.inside(*argv))
        self.processes.ready(
            APISERVER, lambda: answers(f"{API}/readyz", self.pki.credentials("admin").context())
        )

    def stop_apiserver(self) -> None:
        """End the API server as a crash does; asked to stop, it waits for those who watch."""
        self.processes.stop(APISERVER, signal.SIGKILL)

    def compact(self) -> None:
        """Make etcd forget everything but what stands."""
        any_key = {"key": "AA==", "limit": "1", "keys_only": True}
        revision = _etcd("/v3/kv/range", any_key)["header"]["revision"]
        _etcd("/v3/kv/compaction", {"revision": revision})

    def _issue(self) -> None:
        self.pki.create()
        names = [f"DNS:{name}" for name in ("localhost", *NAMES, f"{NAMES[-1]}.{DOMAIN}")]
        addresses = [f"IP:{each}" for each in ("127.0.0.1", API_SERVICE, network.ADDRESS)]
        self.pki.issue("apiserver", APISERVER, serves=names + addresses)
        self.pki.issue("apiserver-kubelet", "apiserver-kubelet", "system:masters")
        self.pki.issue("admin", "admin", "system:masters")
        self.pki.kubeconfig("admin")
        for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
            self.pki.issue(name, f"system:{name}")
            self.pki.kubeconfig(name)

    def _start_etcd(self) -> None:
        flags = {
            "data-dir": self.data,
            "listen-client-urls": ETCD,
            "advertise-client-urls": ETCD,
            "listen-peer-urls": ETCD_PEERS,
            "initial-advertise-peer-urls": ETCD_PEERS,
            "initial-cluster": f"default={ETCD_PEERS}",
            "log-level": "warn",
        }
        argv = [build.program("etcd"), *_flags(flags), "--unsafe-no-fsync"]  # nothing outlives it
        self.processes.start("etcd", network.inside(*argv))
        self.processes.ready("etcd", lambda: answers(f"{ETCD}/health"))

    def _start(self, name: str, port: int, flags: tuple[str, ...]) -> None:
        common = {
            "kubeconfig": str(self.pki.kubeconfig(name)),
            "bind-address": "127.0.0.1",
            "secure-port": str(port),
            "leader-elect": "false",
        }
        argv = [build.program(name), *_flags(common), *flags]
        self.processes.start(name, network.inside(*argv))
        self.processes.ready(name, lambda: answers(f"https://127.0.0.1:{port}/healthz", _anyone()))

    def _apiserver_flags(self) -> list[str]:
        pki = self.pki
        return _flags(
            {
                "etcd-servers": ETCD,
                "advertise-address": network.ADDRESS,
                "secure-port": str(API_PORT),
                "service-cluster-ip-range": SERVICES,
                "authorization-mode": "Node,RBAC",
                "enable-admission-plugins": "NodeRestriction",
                "anonymous-auth": "false",
                "allow-privileged": "true",
                "client-ca-file": str(pki.ca),
                "tls-cert-file": str(pki.certificate("apiserver")),
                "tls-private-key-file": str(pki.key("apiserver")),
                "service-account-issuer": f"https://kubernetes.default.svc.{DOMAIN}",
                "service-account-signing-key-file": str(pki.key("accounts")),
                "service-account-key-file": str(pki.key("accounts").with_suffix(".pub")),
                "kubelet-client-certificate": str(pki.certificate("apiserver-kubelet")),
                "kubelet-client-key": str(pki.key("apiserver-kubelet")),
                "kubelet-certificate-authority": str(pki.ca),
                "kubelet-preferred-address-types": "InternalIP",
            }
        )

    def _manager_flags(self) -> tuple[str, ...]:
        flags = {
            "use-service-account-credentials": "true",
            "root-ca-file": str(self.pki.ca),
            "service-account-private-key-file": str(self.pki.key("accounts")),
            "cluster-signing-cert-file": str(self.pki.ca),
            "cluster-signing-key-file": str(self.pki.key("ca")),
        }
        return tuple(_flags(flags))


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether an address answers 200 to somebody in the cluster's network."""
    with network.entered(), urllib.request.urlopen(url, context=context, timeout=2) as answer:
        return bool(answer.status == 200)


def _flags(words: dict[str, str]) -> list[str]:
    return [f"--{name}={word}" for name, word in words.items()]


def _anyone() -> ssl.SSLContext:
    """For health endpoints with a certificate that the program made for itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _etcd(path: str, asked: dict[str, object]) -> dict[str, dict[str, str]]:
    request = urllib.request.Request(ETCD + path, json.dumps(asked).encode())
    with network.entered(), urllib.request.urlopen(request, timeout=5) as answer:
        found: dict[str, dict[str, str]] = json.load(answer)
        return found
