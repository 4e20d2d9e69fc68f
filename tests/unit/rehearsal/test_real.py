"""Stories on a real cluster: what is refused, what is read, what counts."""

from __future__ import annotations

import base64
import pathlib
import re
import ssl
from typing import Any

import pytest
import yaml

from services.rehearsal import language
from services.rehearsal.real import changes, checks, counters, kubeconfig, limits
from services.rehearsal.story import Node
from shared.domain.errors import RefusedError

NODES = "nodes: [{name: a, gpus: [t4]}]\n"


def story(steps: str, nodes: str = NODES) -> Any:
    """A story of these steps."""
    return language.read(f"{nodes}steps:\n{steps}", "story.yaml")


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("  - kill: {service: allocator, node: a}\n", "only restart is played"),
        ("  - restart: {service: kubelet, node: a}\n", "only restart is played"),
        ("  - reboot: {node: a}\n", "not booted by a rehearsal"),
        ("  - expect: {bus: {consumers: 0}}\n", "consumers of bus cannot be seen"),
        ("  - never: {api: {watches: 9}}\n", "watches of api cannot be seen"),
        (
            "  - pod: {name: p, requests: {r/x: 1}, owner: DaemonSet}\n",
            "puts its pods on all nodes",
        ),
        ("  - pod: {name: p, requests: {r/x: 1}, uses: {memoryMiB: 1}}\n", "simulated processes"),
    ],
)
def test_what_only_the_embedded_cluster_plays_is_refused_with_its_line(
    steps: str, says: str
) -> None:
    """And with what to do instead."""
    with pytest.raises(RefusedError) as refused:
        limits.checked(story(steps))
    (problem,) = refused.value.problems
    assert (problem.line, problem.column, problem.suggestion) == (3, 5, limits.ELSEWHERE)
    assert re.fullmatch(r"steps\[0\]\.[a-z]+", problem.path)
    assert says in problem.message


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ("{name: a, gpus: [t4], kubelet: {lostGrants: true}}", "no such switches"),
        ("{name: a, gpus: [t4], kubelet: {staleScheduler: true}}", "no such switches"),
        ("{name: a, gpus: [{model: a100-40gb, migMode: true}]}", "only the model"),
    ],
)
def test_nodes_that_no_real_one_can_be_are_refused(node: str, says: str) -> None:
    """Nobody makes the GPUs of a real node, or its kubelet late."""
    read = story("  - wait: 1s\n", f"nodes: [{node}]\n")
    (problem,) = limits.problems(read)
    assert (problem.line, problem.column) == (1, 9)
    assert re.fullmatch(r"nodes\[0\]\.(kubelet|gpus)", problem.path)
    assert says in problem.message


def test_what_both_clusters_play_is_not_refused() -> None:
    """Restarts of our own parts, faults, pods, everything that can be seen from outside."""
    steps = """\
  - pod: {name: p, requests: {r/x: 1}, owner: ReplicaSet}
  - fault: {node: a, gpu: 0, xid: 79}
  - restart: {service: bus}
  - expect: {node: a, lists: 1, registrations: 1, slots: {r/x: {free: 1}}, geometry: {0: {}}}
  - expect: {pod: p, env: {A: b}, devices: 1, who: {node: a, gpu: 0, pods: [p]}}
"""
    read = story(steps)
    assert limits.checked(read) is read


def test_gpus_are_compared_by_model() -> None:
    """The sentence says how simulated ones are had."""
    said = {"gpus": [{"model": "Tesla T4"}, {"model": "Something else"}]}
    assert list(checks.wrong_gpus(Node(name="a", gpus=("t4",)), {"gpus": said["gpus"][:1]})) == []
    (sentence,) = checks.wrong_gpus(Node(name="a", gpus=("t4", "t4")), said)
    assert "needs the GPUs t4, t4 and has t4, Something else" in sentence
    assert r"'simulation.gpus=t4\,t4'" in sentence


def test_values_of_a_story_have_to_be_those_of_the_release() -> None:
    """They are Helm's to set."""
    read = story("  - wait: 1s\n", f"{NODES}values: {{drain: {{cordon: never}}}}\n")
    assert list(checks.wrong_values(read, {"SLICEWIRE_DRAIN_CORDON": "never"})) == []
    (sentence,) = checks.wrong_values(read, {"SLICEWIRE_DRAIN_CORDON": "brief"})
    assert "SLICEWIRE_DRAIN_CORDON='brief', the story needs 'never'" in sentence


def test_rows_of_a_metrics_page() -> None:
    """Only those that conditions count, whatever labels they have besides."""
    page = """\
# TYPE slicewire_lists_total counter
slicewire_lists_total{node="a",resource="nvidia.com/gpu"} 3.0
slicewire_registrations_total{resource="nvidia.com/gpu"} 1
slicewire_reads_total{resource="nvidia.com/gpu"} 7.0
"""
    assert list(counters.rows(page)) == [
        (counters.LISTS, "nvidia.com/gpu", 3),
        (counters.REGISTRATIONS, "nvidia.com/gpu", 1),
    ]


def test_names_of_spans_are_looked_for_in_all_branches() -> None:
    """Of all traces that were reached; a pattern finds the first that it fits."""
    leaf = {"name": "send list", "children": []}
    trees = [{"spans": [{"name": "resolve config", "children": [leaf]}]}]
    assert changes.covered(trees, ["~^send", "resolve config", "evict pod"]) == [
        "send list",
        "resolve config",
    ]


def write(folder: pathlib.Path, cluster: dict[str, Any], user: dict[str, Any]) -> pathlib.Path:
    """A kubeconfig with one context."""
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_token_of_a_file_or_beside_it_is_who_we_are(tmp_path: pathlib.Path) -> None:
    """And it is not shown when the value is printed."""
    here = kubeconfig.read(write(tmp_path, {"server": "http://c:1"}, {"token": "secret"}))
    assert (here.server, here.tls) == ("http://c:1", None)
    assert here.headers == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(here)
    (tmp_path / "t").write_text("other\n", encoding="ascii")
    there = kubeconfig.read(write(tmp_path, {"server": "https://c"}, {"tokenFile": "t"}))
    assert there.headers == {"Authorization": "Bearer other"}
    assert there.tls is not None
    assert there.tls.verify_mode is ssl.CERT_REQUIRED


def test_who_wants_no_check_of_the_server_gets_none(tmp_path: pathlib.Path) -> None:
    """As kubectl does."""
    cluster = {"server": "https://c", "insecure-skip-tls-verify": True}
    tls = kubeconfig.read(write(tmp_path, cluster, {})).tls
    assert tls is not None
    assert tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("cluster", "user", "says"),
    [
        ({}, {}, "the cluster c has no server"),
        ({"server": "https://c"}, {"exec": {"command": "x"}}, "kubectl create token"),
        ({"server": "https://c", "certificate-authority-data": "%"}, {}, "is not base64"),
        (
            {"server": "https://c", "certificate-authority-data": base64.b64encode(b"x").decode()},
            {},
            "cannot be read",
        ),
        ({"server": "https://c", "certificate-authority": "none.crt"}, {}, "none.crt"),
    ],
)
def test_a_file_that_is_of_no_use_is_refused_in_words(
    tmp_path: pathlib.Path, cluster: dict[str, Any], user: dict[str, Any], says: str
) -> None:
    """They begin with the file."""
    path = write(tmp_path, cluster, user)
    with pytest.raises(kubeconfig.KubeconfigError, match="config") as refused:
        kubeconfig.read(path)
    assert says in str(refused.value)


def test_a_context_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    """With the command that chooses one."""
    path = tmp_path / "config"
    path.write_text("current-context: gone\n", encoding="utf-8")
    with pytest.raises(kubeconfig.KubeconfigError, match="no context 'gone': set one with"):
        kubeconfig.read(path)
