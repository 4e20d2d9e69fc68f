"""Values: the defaults are valid, usual mistakes are refused, and the settings come from them."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
import yaml

from services.reconfigurer.controller import cordon, nodes, values
from services.reconfigurer.controller.attempt import Policy
from services.reconfigurer.controller.eviction import Answer
from services.reconfigurer.controller.settings import ControllerSettings
from shared import version
from shared.contract import names
from shared.contract.messages import Drift, MigPolicy
from shared.domain.errors import RefusedError
from shared.domain.sharing import AllocationPolicy, MigStrategy, SharingConfig
from shared.runtime import settings
from shared.sharing import select

CHART = pathlib.Path(__file__).parents[2] / "deploy" / "chart"
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
TEXT = "version: v1\n"
HOME_LAB = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"


def changed(path: str, value: object) -> dict[str, Any]:
    """The default values with one of them replaced, as helm does it: maps are merged."""
    for name in reversed(path.split(".")):
        value = {name: value}
    found: dict[str, Any] = merged(DEFAULTS, value)
    return found


def merged(below: object, above: object) -> Any:
    """What helm makes of the chart's values and the user's: null takes a value away."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return copy.deepcopy(above)
    both = {name: merged(below.get(name), value) for name, value in above.items()}
    return {name: value for name, value in {**below, **both}.items() if value is not None}


def loaded(given: Mapping[str, Any]) -> ControllerSettings:
    """The settings of a controller that runs with these values."""
    return settings.load(ControllerSettings, [], values.variables(given), "controller")


def test_the_default_values_are_valid() -> None:
    """values.yaml passes its own schema."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(DEFAULTS, SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("sharing.configMap", {"name": "s", "create": True, "data": {}}, id="F23"),
        pytest.param("sharing.configMap", {"name": "s", "create": True}, id="create, no data"),
        pytest.param("sharing.configMap.data", {"any": TEXT}, id="data that nothing reads"),
        pytest.param(
            "sharing.configMap", {"create": True, "data": {"any": {"version": "v1"}}}, id="map"
        ),
        pytest.param("sharing.configMap", {"create": True, "data": {"a/b": TEXT}}, id="bad key"),
        pytest.param("sharing.configMap.name", "Sharing_Config", id="no object name"),
        pytest.param("sharing.labels", "x", id="misspelt"),
        pytest.param("sharing.label", "not a label", id="no label name"),
        pytest.param("sharing.migStrategy", "mixd", id="no MIG strategy"),
        pytest.param("sharing.allocationPolicy", "spread", id="no policy"),
        pytest.param("sharing.rules", [{"key": "a"}], id="rule without a condition"),
        pytest.param("sharing.rules", [{"product": "T4"}], id="rule without a key"),
        pytest.param("sharing.rules", [{"pciId": 0x1EB810DE, "key": "t4"}], id="unquoted PCI id"),
        pytest.param("sharing.rules", [{"labels": {"a": True}, "key": "b"}], id="unquoted true"),
        pytest.param("bus.url", "http://nats:4222", id="not NATS"),
        pytest.param("bus.url", "nats://a:4222", id="an existing NATS, its risk not accepted"),
        pytest.param(
            "bus", {"url": "nats://a:4222", "acceptRoleUsers": True}, id="no passwords for it"
        ),
        pytest.param("bus.usersSecret", "bus-users", id="passwords that nothing reads"),
        pytest.param("nodes.maxSurge", "0%", id="an upgrade with gaps"),
        pytest.param("image.tag", 1.2, id="an unquoted tag"),
        pytest.param("image.repository", "registry.test/a:1", id="a tag in the name"),
        pytest.param("telemetry.endpoint", "collector:4318", id="no address"),
        pytest.param("agent.enable", False, id="misspelt switch"),
        pytest.param("controller.leaseSeconds", "15s", id="a duration"),
        pytest.param("mig.configMap", {"create": True, "data": {}}, id="create, no MIG text"),
        pytest.param("mig.configMap.data", {"config.yaml": TEXT}, id="MIG text nobody reads"),
        pytest.param(
            "mig.configMap", {"create": True, "data": {"config": TEXT}}, id="not config.yaml"
        ),
        pytest.param("mig.maxUnavailable", 0, id="nobody may change"),
        pytest.param("mig.maxUnavailable", "0%", id="nobody may change, in percent"),
        pytest.param("mig.maxUnavailable", "25", id="a number in quotes"),
        pytest.param("mig.drift", "ignore", id="no such policy"),
        pytest.param("drain.cordon", False, id="never, as a boolean"),
        pytest.param("drain.timeoutSeconds", "5m", id="a time with a unit"),
        pytest.param("drain.barePods", "force", id="no such answer"),
        pytest.param("metrics.podMonitor.interval", 15, id="an interval without a unit"),
        pytest.param("metrics.scrapers", [], id="everybody by mistake"),
        pytest.param(
            "metrics",
            {"enabled": False, "podMonitor": {"enabled": True}},
            id="a monitor of nothing",
        ),
        pytest.param("mps.sharedMemoryMiB", "1Gi", id="a size with a unit"),
        pytest.param("vram.enabled", True, id="a section that this version has not"),
    ],
)
def test_usual_mistakes_are_refused(path: str, value: object) -> None:
    """Helm names the value instead of installing something that does nothing."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(path, value), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("sharing.configMap", {"create": True, "data": {"any": TEXT}}, id="created"),
        pytest.param(
            "sharing.configMap", {"create": True, "data": {"default": HOME_LAB}}, id="F17"
        ),
        pytest.param("sharing.rules", [{"pciId": "0x1EB810DE", "key": "t4"}], id="rule"),
        pytest.param(
            "bus",
            {
                "url": "nats://a:4222,tls://b:4222",
                "acceptRoleUsers": True,
                "usersSecret": "bus-users",
            },
            id="an existing NATS of two servers",
        ),
        pytest.param(
            "metrics.scrapers", [{"ipBlock": {"cidr": "10.0.0.0/8"}}], id="Prometheus on a host"
        ),
        pytest.param("nodes.maxSurge", 3, id="three nodes at a time"),
        pytest.param("nodes.gpuLabels", [], id="every node"),
        pytest.param("image.repository", "registry.test:5000/a/slicewire", id="a registry"),
        pytest.param(
            "mig.configMap", {"create": True, "data": {"config.yaml": TEXT}}, id="MIG text"
        ),
        pytest.param("mig.maxUnavailable", "25%", id="a part of the nodes"),
        pytest.param("global", {"imageRegistry": "x"}, id="a dependency of another chart"),
    ],
)
def test_usual_values_pass(path: str, value: object) -> None:
    """The schema refuses no more than it has to."""
    jsonschema.validate(changed(path, value), SCHEMA)


def test_every_value_of_the_schema_has_a_sentence_and_a_user() -> None:
    """Each stands in the defaults, is described, and feeds a setting or the chart itself."""
    described = dict(_leaves(SCHEMA, ""))
    described.pop("global")
    assert set(described) == {*values.FIELDS, *values.CHART_ONLY}
    assert all(described.values())
    assert set(values.FIELDS.values()) < set(ControllerSettings.model_fields)
    for path in described:
        place: Any = DEFAULTS
        for name in path.split("."):
            place = place[name]


def test_defaults_of_chart_and_settings_agree() -> None:
    """A rehearsal without values runs as a release without."""
    from_chart, own = loaded(DEFAULTS), ControllerSettings()
    different = {
        name for name in type(own).model_fields if getattr(own, name) != getattr(from_chart, name)
    }
    assert not different
    assert own.config_label == names.CONFIG_LABEL


def test_chart_and_controller_know_gpu_nodes_by_the_same_labels() -> None:
    """Where node services run, the controller looks."""
    assert set(DEFAULTS["nodes"]["gpuLabels"]) == set(nodes.GPU_LABELS)


def test_values_become_settings() -> None:
    """Each value arrives in the field that the controller reads."""
    given = {
        "sharing": {
            "configMap": {"name": "slices", "create": True, "data": {"any": TEXT}},
            "defaultKey": "any",
            "migStrategy": "mixed",
            "allocationPolicy": "packed",
            "rules": [
                {"pciId": "0x1EB810DE", "key": "t4"},
                {"labels": {"team": "vision"}, "product": "Tesla-*", "key": "v"},
            ],
        },
        "mig": {"default": "all-balanced", "maxUnavailable": "10%", "reboot": True},
        "drain": {"cordon": "whole", "timeoutSeconds": 5, "barePods": "fail"},
        "controller": {"leaseSeconds": 3},
    }
    found = loaded(given)
    policy = MigPolicy(reboot=True, drift=Drift.REPAIR, drain_ns=5_000_000_000)
    assert found.mig_policy == policy
    assert found.mig_default == "all-balanced"
    assert found.drain == Policy(
        cordon=cordon.Policy.WHOLE,
        timeout_s=5,
        bare_pods=Answer.FAIL,
        max_unavailable="10%",
    )
    assert found.config_map == "slices"
    assert found.lease_seconds == 3
    assert found.unshared == SharingConfig(
        mig_strategy=MigStrategy.MIXED, allocation_policy=AllocationPolicy.PACKED
    )
    assert found.choice == select.Choice(
        label=names.CONFIG_LABEL,
        rules=(
            select.Rule(key="t4", pci_id="0x1EB810DE"),
            select.Rule(key="v", product="Tesla-*", labels={"team": "vision"}),
        ),
        key="any",
    )


def test_an_unknown_value_is_refused_with_the_nearest_name() -> None:
    """A story with a misspelt value is wrong, not silently something else."""
    with pytest.raises(RefusedError) as refusal:
        values.variables({"sharing": {"defaultkey": "a"}})
    assert 'did you mean "sharing.defaultKey"' in str(refusal.value)


def test_a_list_where_a_map_of_values_is_due_is_told_what_belongs_there() -> None:
    """The mistake is the shape, not the name."""
    with pytest.raises(RefusedError) as refusal:
        values.variables({"drain": []})
    assert "a map is due here, with drain.cordon, drain.timeoutSeconds" in str(refusal.value)


def test_rules_that_are_a_map_are_no_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    """A map loses nothing without a word."""
    with pytest.raises(SystemExit):
        loaded({"sharing": {"rules": {}}})
    assert "a JSON list of rules is due" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ('[{"key": "a", "products": "T4"}]', "product"),
        ('[{"product": "T4"}]', "rule 1 names no key"),
        ('[{"key": "a"}]', "states no product"),
        ('{"key": "a"}', "a JSON list of rules is due"),
        ("[1]", "not a JSON object"),
        (
            '[{"key": "a", "pciId": 515379422}]',
            "rule 1, pciId: found 515379422, due is a quoted id",
        ),
        ('[{"key": "a", "pciId": "20B510DE"}]', 'like "0x20B510DE"'),
        ('[{"key": "a", "product": ""}]', "rule 1, product"),
        ('[{"key": "a", "labels": {"team": true}}]', "a mapping of labels to quoted texts"),
        ('[{"key": "a", "product": "T4"}, {"key": 5, "product": "T4"}]', "rule 2 names no key"),
    ],
)
def test_wrong_rules_end_the_start_with_a_sentence(
    rules: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, and what is wrong with which rule."""
    with pytest.raises(SystemExit) as ended:
        settings.load(ControllerSettings, ["--selection-rules", rules], {}, "controller")
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_the_chart_names_the_version_of_the_code() -> None:
    """The image that it runs is the one it was made for."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version.__version__


def _leaves(schema: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name, part in schema["properties"].items():
        path = f"{above}{name}"
        if "properties" in part:
            assert part["description"], path
            assert part["additionalProperties"] is False, path
            yield from _leaves(part, f"{path}.")
        else:
            yield path, part["description"]
