"""The committed stubs: made of our proto texts, and naming the paths that the kubelet serves."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import FileDescriptor

from shared.kubelet import generate
from shared.kubelet.podresources.v1 import api_pb2 as pod_resources
from shared.kubelet.v1beta1 import api_pb2 as device_plugin


def test_committed_stubs_are_what_the_proto_texts_give() -> None:
    """Nobody edits a stub, and nobody forgets `make proto`."""
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("api", "methods"),
    [
        (
            device_plugin.DESCRIPTOR,
            {
                "v1beta1.Registration.Register",
                "v1beta1.DevicePlugin.GetDevicePluginOptions",
                "v1beta1.DevicePlugin.ListAndWatch",
                "v1beta1.DevicePlugin.GetPreferredAllocation",
                "v1beta1.DevicePlugin.Allocate",
                "v1beta1.DevicePlugin.PreStartContainer",
            },
        ),
        (
            pod_resources.DESCRIPTOR,
            {
                "v1.PodResourcesLister.List",
                "v1.PodResourcesLister.GetAllocatableResources",
                "v1.PodResourcesLister.Get",
            },
        ),
    ],
    ids=["device plugin", "pod resources"],
)
def test_method_names_are_the_kubelets(api: FileDescriptor, methods: set[str]) -> None:
    """They are the paths on the wire: a real kubelet answers others with "unimplemented"."""
    services = api.services_by_name.values()
    assert {method.full_name for service in services for method in service.methods} == methods
