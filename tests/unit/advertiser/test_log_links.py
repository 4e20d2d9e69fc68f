"""Which container a uid and an id belong to, by the kubelet's links of logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.advertiser import log_links
from services.advertiser.cgroups import Membership
from shared.domain.slots import Holder

UID = "3b0c7f43-8b5e-4b1c-9d0f-6a2f5d1e7c11"
ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
OTHER = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
NAME_MAX = 255


def link(
    container: str = "main",
    container_id: str = ID,
    *,
    pod: str = "train-1",
    namespace: str = "team-a",
    uid: str = UID,
    logs: str = "/var/log/pods",
) -> tuple[str, str]:
    """A link as the kubelet makes it, cut where it has to be."""
    name = f"{pod}_{namespace}_{container}-{container_id}"[: NAME_MAX - len(".log")]
    return f"{name}.log", f"{logs}/{namespace}_{pod}_{uid}/{container}/0.log"


def named(*entries: tuple[str, str], uid: str = UID, container_id: str = ID) -> Holder | None:
    """Whom a process in this container belongs to."""
    return log_links.holder(log_links.read(entries), Membership(uid, container_id))


def test_a_container_is_found_by_its_id() -> None:
    """Among others of the pod, and other pods."""
    entries = (link("other", OTHER), link(), link("main", OTHER, pod="x", uid=UID[::-1]))
    assert named(*entries) == Holder("team-a", "train-1", "main")
    assert named(*entries, container_id=OTHER) == Holder("team-a", "train-1", "other")


def test_names_may_hold_dashes_and_dots() -> None:
    """So the id is what stands behind the container's whole name."""
    entry = link("main-2", pod="train-1.example", namespace="team-a-2")
    assert named(entry) == Holder("team-a-2", "train-1.example", "main-2")


def test_a_pod_that_is_known_no_more_has_no_name() -> None:
    """It has just gone, and its links with it."""
    assert named() is None
    assert named(link(uid="another")) is None


def test_a_container_that_has_no_link_yet_belongs_to_its_pod() -> None:
    """Another container of the pod is not taken for it."""
    assert named(link("other", OTHER)) == Holder("team-a", "train-1", "")
    assert named(link("other", OTHER), container_id="") == Holder("team-a", "train-1", "")


def test_a_container_that_began_again_is_found_by_either_id() -> None:
    """The link of its former run may still be there."""
    entries = (link("main", OTHER), link())
    assert named(*entries) == named(*entries, container_id=OTHER)


@pytest.mark.parametrize("length", [100, 150, 170, 200, 251])
def test_long_names_cut_the_id(length: int) -> None:
    """Of it a part is left, or nothing; the container's own name stands in the target."""
    pod = "p" * length
    assert named(link(pod=pod)) == Holder("team-a", pod, "main")


def test_of_two_containers_whose_ids_are_cut_off_neither_is_taken() -> None:
    """The pod is known; a guess would put one's use down to the other."""
    pod = "p" * 251
    assert named(link("a", pod=pod), link("b", pod=pod)) == Holder("team-a", pod, "")


def test_ids_that_are_cut_are_told_apart_by_what_is_left() -> None:
    """Ten hexadecimal digits are enough."""
    pod = "p" * (251 - len("_team-a_main-") - 10)
    entries = (link("main", ID, pod=pod), link("side", OTHER, pod=pod))
    assert named(*entries) == Holder("team-a", pod, "main")
    assert named(*entries, container_id=OTHER) == Holder("team-a", pod, "side")


def test_ids_that_are_cut_to_the_same_are_not_guessed() -> None:
    """One digit is left of the one, two of the other, and both may be it."""
    pod = "p" * (251 - len("_team-a_cc-") - 1)
    entries = (link("cc", ID, pod=pod), link("d", ID[:2] + OTHER[2:], pod=pod))
    assert named(*entries) == Holder("team-a", pod, "")


def test_the_kubelet_may_keep_logs_elsewhere() -> None:
    """Its setting podLogsDir moves the targets, not the links."""
    assert named(link(logs="/mnt/logs/pods")) == Holder("team-a", "train-1", "main")


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(("README", "elsewhere"), id="another link"),
        pytest.param(("a.log", "/var/log/pods/a_b_c_d/main/0.log"), id="too many parts"),
        pytest.param(("a.log", "/var/log/pods/__/main/0.log"), id="empty parts"),
        pytest.param(("a.log", ""), id="no target"),
    ],
)
def test_what_has_another_form_is_left_out(entry: tuple[str, str]) -> None:
    """Other programs may keep files there."""
    assert log_links.read([entry]) == {}


@given(st.lists(st.tuples(st.text(), st.text())), st.text(), st.text())
def test_no_name_is_too_strange(entries: list[tuple[str, str]], uid: str, found: str) -> None:
    """Whatever stands in the folder."""
    log_links.holder(log_links.read(entries), Membership(uid, found))
