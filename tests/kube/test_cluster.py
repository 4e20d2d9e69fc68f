"""The cluster itself: what charts and services may count on."""

from __future__ import annotations

import asyncio

from tests.kube import images
from tests.kube.cluster import Cluster
from tests.kube.real_kubelet import RealNode

WEB = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web}}}}
spec:
  nodeName: gpu-a
  containers:
    - name: web
      image: {images.PAUSE}
      command: [sh, -c, "echo here > /tmp/index.html && httpd -f -p 80 -h /tmp"]
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{port: 80}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: caller}}
spec:
  nodeName: gpu-b
  containers: [{{name: caller, image: "{images.PAUSE}"}}]
"""


async def test_a_pod_reaches_a_service_on_another_node_by_its_name(node: RealNode) -> None:
    """DNS, the service's address and the way between two nodes are real."""
    await asyncio.to_thread(_call, node.cluster)


def _call(cluster: Cluster) -> None:
    with cluster.another_node():
        cluster.kubectl("apply", "--filename", "-", given=WEB)
        ready = ("wait", "--for=condition=Ready", "--timeout=120s")
        cluster.kubectl(*ready, "pod/web", "pod/caller")
        cluster.kubectl(*ready, "pods", "--namespace", "kube-system", "--selector", "app=coredns")
        call = ("wget", "-q", "-O", "-", "http://web.default.svc.cluster.local")
        assert cluster.kubectl("exec", "caller", "--", *call) == "here\n"
        assert cluster.kubectl("exec", "caller", "--", *call[:-1], "http://web") == "here\n"
        cluster.kubectl("delete", "service", "web")
