"""Values as they come in practice: null, of another kind, twice; names beyond the usual."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
import yaml

from tests.chart.rendered.helm import (
    WORKLOADS,
    Json,
    RefusedError,
    environment,
    of_kind,
    pods,
    rendered,
    text,
)
from tests.chart.test_values import DEFAULTS, SCHEMA, merged

EXISTING = {"acceptRoleUsers": True, "usersSecret": "bus-users"}
DNS = {(port, protocol) for port in (53, 5353) for protocol in ("UDP", "TCP")}
DNS_1035 = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
EVERYTHING = {
    "simulation": {"enabled": True},
    "mps": {"enabled": True},
    "alerts": {"enabled": True},
    "metrics": {"podMonitor": {"enabled": True}},
}


class OnceLoader(yaml.SafeLoader):
    """YAML as strict readers take it: a key stands once in a map."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that stands twice."""
        keys = [self.construct_object(key, deep) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"twice in one map: {keys}"
        return super().construct_mapping(node, deep)


def paths(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every section and every value."""
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, Mapping):
            yield from paths(value, (*above, name))


def at(path: tuple[str, ...], value: object) -> Any:
    """A map with one value in it."""
    for name in reversed(path):
        value = {name: value}
    return value


def egress(values: Mapping[str, Any]) -> set[int]:
    """Ports besides DNS that node services may reach."""
    policy = of_kind(rendered(values), "NetworkPolicy")["slicewire-nodes"]
    (rule,) = policy["spec"]["egress"]
    found = {(each["port"], each["protocol"]) for each in rule["ports"]}
    return {port for port, protocol in found - DNS if protocol == "TCP"}


def without_a_value() -> Iterator[tuple[str, ...]]:
    """Paths at which null passes the schema."""
    for path in paths(DEFAULTS):
        try:
            jsonschema.validate(merged(DEFAULTS, at(path, None)), SCHEMA)
        except jsonschema.ValidationError:
            continue
        yield path


@pytest.mark.parametrize("path", list(without_a_value()), ids=".".join)
def test_a_null_that_passes_means_nothing(path: tuple[str, ...]) -> None:
    """A key whose lines are commented out leaves no trace like <nil> behind."""
    said = text(at(path, None))
    assert not re.search(r"<nil>|%!|: null\b|\"null\"", said)
    list(yaml.safe_load_all(said))


@pytest.mark.parametrize("path", ["telemetry", "drain.timeoutSeconds", "agent.enabled", "image"])
def test_other_nulls_are_refused_by_name(path: str) -> None:
    """Nothing is switched off by a blank line, and nothing starts with <nil>."""
    names = path.split(".")
    with pytest.raises(RefusedError, match=names[-1]):
        rendered(at(tuple(names), None))


@pytest.mark.parametrize(
    ("url", "ports"),
    [
        ("nats://10.0.0.1", {4222}),
        ("nats://nats-1", {4222}),
        ("tls://node01.b2", {4222}),
        ("nats://a:5222,tls://b2:6222", {5222, 6222}),
        ("nats://[fd00::1]:5222,nats://[fd00::2]", {5222, 4222}),
    ],
)
def test_node_services_may_reach_an_existing_bus(url: str, ports: set[int]) -> None:
    """At the port that the address names, else at NATS's; digits of a name are no port."""
    assert egress({"bus": {"url": url, **EXISTING}}) == ports


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        ("http://collector:4318", 4318),
        ("http://collector-2:4318/", 4318),
        ("https://otlp.example/otlp/v1:2", 443),
        ("http://10.0.0.1", 80),
        ("http://[fd00::1]:4318/base", 4318),
    ],
)
def test_node_services_may_reach_the_collector(endpoint: str, port: int) -> None:
    """At the port of the address or of its scheme, a path behind it or not; and at named ones."""
    values = {"telemetry": {"endpoint": endpoint}, "networkPolicy": {"ports": [14318]}}
    assert egress(values) == {4222, port, 14318}


@pytest.mark.parametrize(
    "url", ["nats://user:secret@a:4222", "nats://a:4222/path", "nats://a:4222?x", "nats://a b"]
)
def test_an_address_with_more_than_a_server_is_refused(url: str) -> None:
    """Credentials in it would do nothing and stand in logs."""
    with pytest.raises(RefusedError, match=r"bus.url|/bus/url"):
        rendered({"bus": {"url": url, **EXISTING}})


def test_no_key_stands_twice_in_a_map() -> None:
    """Labels and selectors that the chart sets as well: readers like Flux's refuse two of them."""
    labels = {"app.kubernetes.io/part-of": "gpus", "kubernetes.io/os": "linux"}
    values = merged(
        EVERYTHING,
        {
            "nodes": {"selector": labels},
            "controller": {"selector": labels},
            "dashboards": {"labels": labels},
            "alerts": {"labels": labels},
            "metrics": {"podMonitor": {"labels": labels}},
            "podLabels": labels,
            "podAnnotations": {"prometheus.io/port": "1", "slicewire.io/configuration": "x"},
        },
    )
    objects = [each for each in yaml.load_all(text(values), OnceLoader) if each]
    boards = [each for each in objects if "dashboard" in each["metadata"]["name"]]
    assert {each["metadata"]["labels"]["app.kubernetes.io/part-of"] for each in boards} == {"gpus"}


@pytest.mark.parametrize(
    "release", ["1slice", "gpu.prod", "9", "true", "null", "on", "a" * 53, "slicewire.2"]
)
def test_every_release_name_of_helm_gives_valid_objects(release: str) -> None:
    """Names are those that a Service may have, and labels are texts."""
    objects = [each for each in yaml.safe_load_all(text(EVERYTHING, release)) if each]
    for each in objects:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == release
        assert all(isinstance(label, str) for label in labels.values())
        if each["kind"] in {*WORKLOADS, "Service"}:
            assert DNS_1035.fullmatch(each["metadata"]["name"])


def test_names_that_are_cut_still_differ() -> None:
    """Two releases whose long names begin alike share no object."""
    both = [
        {each["metadata"]["name"] for each in rendered(release=f"{'gpu-cluster-' * 4}{place}")}
        for place in ("eu1", "eu2")
    ]
    assert both[0] & both[1] == set()


def test_names_that_look_like_numbers_stay_texts() -> None:
    """Helm hands a template 123 and true as text; YAML must not read them as something else."""
    values = {
        "image": {"pullSecrets": ["123"]},
        "nodes": {"priorityClassName": "1", "runtimeClassName": "true", "gpuLabels": ["0"]},
        "controller": {"priorityClassName": "2"},
        "bus": {"keysSecret": "3", "persistence": {"enabled": True, "storageClass": "-"}},
        "dashboards": {"namespace": "4"},
        "simulation": {"enabled": True, "gpus": "a100-80gb: 2"},
    }
    found = {
        value
        for each in rendered(values)
        for value in _scalars(each)
        if value in ("123", "1", "true", "2", "3", "4", "-")
    }
    assert found == {"123", "1", "true", "2", "3", "4", "-"}


def _scalars(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _scalars(each)
    elif isinstance(value, list):
        for each in value:
            yield from _scalars(each)
    elif isinstance(value, str):
        yield value


def test_images_can_be_pinned_by_digest() -> None:
    """Each by its own, behind the tag."""
    node, cluster, nats = (f"sha256:{digit * 64}" for digit in "abc")
    values = {
        "image": {"digests": {"node": node, "cluster": cluster}},
        "bus": {"image": {"tag": f"2.15.1@{nats}"}},
    }
    images = {
        container["image"].partition("@")[2]
        for _name, template in pods(rendered(values))
        for container in template["spec"]["containers"]
    }
    assert images == {node, cluster, nats}


def test_labels_of_the_user_are_on_every_pod_and_take_no_selector_away() -> None:
    """A pod stays one of its workload, whatever is wanted of its labels."""
    mine = {"team": "gpus", "app.kubernetes.io/component": "mine"}
    values = merged(EVERYTHING, {"podLabels": mine, "podAnnotations": {"inject": "false"}})
    for name, workload in of_kind(rendered(values), *WORKLOADS).items():
        metadata = workload["spec"]["template"]["metadata"]
        assert metadata["labels"]["team"] == "gpus", name
        assert metadata["annotations"]["inject"] == "false", name
        wanted = workload["spec"].get("selector", {}).get("matchLabels", {})
        assert wanted.items() <= metadata["labels"].items(), name


def test_what_is_no_node_service_stays_on_chosen_nodes() -> None:
    """Controller, NATS and the Jobs; node services go where GPUs are."""
    infra = {"node-role.kubernetes.io/infra": ""}
    objects = rendered({"controller": {"selector": infra}})
    for name, workload in of_kind(objects, *WORKLOADS).items():
        chosen = infra.items() <= workload["spec"]["template"]["spec"]["nodeSelector"].items()
        assert chosen == (workload["kind"] != "DaemonSet"), name


@pytest.mark.parametrize(
    ("sharing", "sentence"),
    [
        ({"defaultKey": "b"}, "sharing.defaultKey is b, but the keys of .* are a"),
        ({"rules": [{"product": "T4", "key": "t4"}]}, r"sharing.rules\[0\].key is t4"),
        ({"configMap": {"name": "mig"}}, "are both mig"),
    ],
)
def test_what_cannot_be_found_in_what_the_chart_makes_is_refused(
    sharing: Json, sentence: str
) -> None:
    """A key that no text has would leave nodes unshared, and nobody would know why."""
    made = {"configMap": {"create": True, "data": {"a": "version: v1\n"}}}
    mig = {"configMap": {"create": True, "data": {"config.yaml": "version: v1\n"}}}
    with pytest.raises(RefusedError, match=sentence):
        rendered({"sharing": merged(made, sharing), "mig": mig})


def test_a_terabyte_of_shared_memory_is_a_number() -> None:
    """Numbers above a million are not written with an exponent."""
    objects = rendered({"mps": {"enabled": True, "sharedMemoryMiB": 1048576}})
    (container,) = of_kind(objects, "DaemonSet")["slicewire-mps"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert environment(container)["SLICEWIRE_SHARED_MEMORY_MIB"] == "1048576"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("image.tag", f"sha256:{'a' * 64}"),
        ("bus.image.repository", "nats:2.10"),
        ("nodes.tolerations", [{"key": "a", "Operator": "Exists"}]),
        ("nodes.tolerations", [{"key": "a", "value": True}]),
        ("nodes.selector", {"a": "b c"}),
        ("nodes.gpuLabels", ["nvidia.com/gpu.present=true"]),
        ("advertiser.resources", {"limits": {"mem": "1Gi"}}),
        ("advertiser.resources", {"limits": {"memory": "256MB"}}),
        ("metrics.scrapers", [{"podSelector": {"app": "x"}}]),
        ("metrics.scrapers", [{"ipBlock": {"cidr": "10.0.0.1"}}]),
        ("alerts.docs", "https://wiki.example/a b"),
        ("bus.persistence.storageClass", "a: b"),
    ],
)
def test_what_the_api_server_would_refuse_later_is_refused_first(path: str, value: object) -> None:
    """Before a Job has made keys; the value is named."""
    with pytest.raises(RefusedError, match=path.replace(".", "[./]")):
        rendered(at(tuple(path.split(".")), value))
