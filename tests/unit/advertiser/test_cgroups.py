"""Whose a process is, by the text of its cgroup file, in all the forms that nodes are set up in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.advertiser import cgroups
from services.advertiser.cgroups import Membership

UID = "3b0c7f43-8b5e-4b1c-9d0f-6a2f5d1e7c11"
SCORED = UID.replace("-", "_")
STATIC = "8f41e5f6c7a8b9d0e1f2a3b4c5d6e7f8"  # a hash: static pods have no other uid
ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
INNER = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
V1 = """12:pids:{path}
11:cpuset:{path}
1:name=systemd:{path}
0::/system.slice/containerd.service
"""


def slices(uid: str, scope: str, qos: str = "burstable") -> str:
    """A path as systemd makes it."""
    return f"/kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{uid}.slice/{scope}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"0::{slices(SCORED, f'cri-containerd-{ID}.scope')}\n", id="v2 containerd"),
        pytest.param(f"0::{slices(SCORED, f'crio-{ID}.scope')}\n", id="v2 cri-o"),
        pytest.param(f"0::{slices(SCORED, f'crio-{ID}.scope/container')}\n", id="v2 cri-o, nested"),
        pytest.param(f"0::{slices(SCORED, f'docker-{ID}.scope')}\n", id="v2 cri-dockerd"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{SCORED}.slice/cri-containerd-{ID}.scope\n",
            id="v2 guaranteed",
        ),
        pytest.param(f"0::/kubepods/besteffort/pod{UID}/{ID}\n", id="v2 cgroupfs"),
        pytest.param(f"0::/kubepods/pod{UID}/{ID}", id="v2 cgroupfs, guaranteed, no end of line"),
        pytest.param(V1.format(path=f"/kubepods/burstable/pod{UID}/{ID}"), id="v1 cgroupfs"),
        pytest.param(V1.format(path=slices(SCORED, f"docker-{ID}.scope")), id="v1 systemd"),
        pytest.param(
            f"0::/system.slice/containerd.service/"
            f"kubepods-burstable-pod{SCORED}.slice:cri-containerd:{ID}\n",
            id="systemd for the kubelet, cgroupfs for containerd",
        ),
        pytest.param(
            f"0::/../../kubepods-burstable-pod{SCORED}.slice/cri-containerd-{ID}.scope\n",
            id="the reader has a cgroup namespace",
        ),
        pytest.param(
            f"0::/docker/{INNER}/kubelet.slice/kubelet-kubepods.slice/"
            f"kubelet-kubepods-pod{SCORED}.slice/cri-containerd-{ID}.scope\n",
            id="kind",
        ),
        pytest.param(
            f"0::{slices(SCORED, f'cri-containerd-{ID}.scope')}/docker/{INNER}\n",
            id="docker in a container",
        ),
        pytest.param(
            f"0::{slices(SCORED, f'cri-containerd-{ID}.scope')}/kubepods/pod{STATIC}/{INNER}\n",
            id="a cluster in a container",
        ),
    ],
)
def test_the_pod_and_the_container_are_found(text: str) -> None:
    """With dashes in the uid, as the API server and the kubelet write it."""
    assert cgroups.membership(text) == Membership(UID, ID)


def test_a_static_pods_uid_is_a_hash() -> None:
    """The kubelet makes it of the manifest."""
    text = f"0::{slices(STATIC, f'cri-containerd-{ID}.scope', 'besteffort')}\n"
    assert cgroups.membership(text) == Membership(STATIC, ID)


def test_a_path_that_ends_with_the_pod_names_no_container() -> None:
    """Such as that of a sandbox made by other means; the pod is known all the same."""
    assert cgroups.membership(f"0::/kubepods/pod{UID}\n") == Membership(UID, "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("0::/\n", id="the root"),
        pytest.param("0::/system.slice/nvidia-persistenced.service\n", id="a service"),
        pytest.param("0::/user.slice/user-0.slice/session-1.scope\n", id="a login"),
        pytest.param(f"0::/system.slice/docker-{ID}.scope\n", id="docker without Kubernetes"),
        pytest.param(f"0::/machine.slice/libpod-{ID}.scope\n", id="podman"),
        pytest.param(f"0::/machine.slice/machine-libpod_pod_{ID}.slice\n", id="a pod of podman"),
        pytest.param(f"0::/kubepods/pod{UID}0/{ID}\n", id="no uid"),
        pytest.param("no cgroup file at all", id="another text"),
    ],
)
def test_processes_of_the_host_belong_to_no_pod(text: str) -> None:
    """Whatever else their path holds."""
    assert cgroups.membership(text) is None


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    """It is read from a kernel that may be newer than this."""
    found = cgroups.membership(text)
    assert found is None or found.pod_uid


@given(st.text(alphabet="/-_.:pod0123456789abcdef\n", max_size=200), st.booleans())
def test_what_stands_around_a_pods_group_does_not_matter(around: str, scored: bool) -> None:
    """As long as it names no pod of its own before it."""
    path = f"/kubepods/pod{SCORED if scored else UID}/{ID}"
    head = around.replace("pod", "").replace("\n", "")
    assert cgroups.membership(f"0::/{head}{path}/{around}") == Membership(UID, ID)
