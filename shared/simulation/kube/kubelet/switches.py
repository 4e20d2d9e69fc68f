"""What a rehearsal may vary about a kubelet; the defaults are the real one's ways.

Only the status period differs: a real kubelet takes 10 s by default, a rehearsal sets 1 s so that
people needn't wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.simulation.kube.kubelet import device_manager


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """The ways of one kubelet.

    Attributes:
        status_period: seconds between two looks at what the node object should say.
        unordered_ids: ids in requests and answers come in random order.
        init_reuse: an app container takes over the devices of its pod's init containers.
        finished_in_list: pod-resources shows finished pods, as before Kubernetes 1.34.
        old_endpoint_drops_new: the end of a replaced plugin's stream cuts off its successor, as
            before Kubernetes 1.35.
        lost_grants: a pod fails between Allocate and its containers, so that no List ever shows it.
        keeps_forced: what a pod held that was deleted by force stays taken until the kubelet starts
            anew, though no List shows the pod (kubernetes/kubernetes#130145).
        endpoint_grace: seconds until the capacity of a resource without a plugin is removed.
    """

    status_period: float = 1.0
    unordered_ids: bool = True
    init_reuse: bool = True
    finished_in_list: bool = False
    old_endpoint_drops_new: bool = False
    lost_grants: bool = False
    keeps_forced: bool = False
    endpoint_grace: float = device_manager.ENDPOINT_GRACE
