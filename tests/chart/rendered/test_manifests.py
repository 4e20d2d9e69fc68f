"""Every manifest is one that Kubernetes takes, no two releases meet, and nobody may too much."""

from __future__ import annotations

import itertools
import json
from typing import Any

import kubernetes_validate
import pytest

from services.allocator.settings import AllocatorSettings
from services.reconfigurer.controller import values as chart_values
from services.reconfigurer.controller.settings import ControllerSettings
from shared.contract import chart_file, mps, names, table
from shared.contract.keys import Key
from tests.chart.rendered.helm import (
    NAMESPACE,
    NEWEST,
    OLDEST,
    WORKLOADS,
    Json,
    environment,
    of_kind,
    pods,
    rendered,
    run,
)
from tests.chart.test_values import CHART, DEFAULTS

TEXT = "version: v1\n"
HOOK_WEIGHT = "helm.sh/hook-weight"
USERS = {"url": "nats://bus.example:4222", "acceptRoleUsers": True, "usersSecret": "users"}
RELEASES: dict[str, Json] = {
    "defaults": {},
    "simulated": {"simulation": {"enabled": True}},
    "existing NATS": {"bus": USERS},
    "own keys": {"bus": {"keysSecret": "sealed"}},
    "everything": {
        "sharing": {"configMap": {"create": True, "data": {"default": TEXT}}},
        "mig": {
            "configMap": {"create": True, "data": {"config.yaml": TEXT}},
            "default": "all-balanced",
            "reboot": True,
        },
        "image": {"pullSecrets": ["registry"], "tag": "1.2"},
        "nodes": {
            "selector": {"pool": "gpu"},
            "runtimeClassName": "nvidia",
            "gpuLabels": [],
            "maxSurge": 2,
        },
        "controller": {"replicas": 3, "tolerations": [{"operator": "Exists"}]},
        "bus": {"persistence": {"enabled": True, "storageClass": "fast"}},
        "telemetry": {"endpoint": "http://collector:4318"},
    },
    "mps": {"mps": {"enabled": True}},
    "simulated mps": {"mps": {"enabled": True}, "simulation": {"enabled": True}},
    "one part": {"advertiser": {"enabled": False}, "allocator": {"enabled": False}},
    "nothing measured": {"metrics": {"enabled": False}},
    "one controller": {"controller": {"replicas": 1}, "networkPolicy": {"enabled": False}},
}
EVERY_RELEASE = pytest.mark.parametrize("given", RELEASES.values(), ids=RELEASES)


@EVERY_RELEASE
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_manifest_is_valid(given: Json, version: str) -> None:
    """Against the schemas of the oldest and the newest Kubernetes, unknown fields refused."""
    objects = rendered(given, "--kube-version", version)
    assert objects
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)


def test_helm_has_nothing_to_complain_about() -> None:
    """`helm lint` finds no fault, not even a small one."""
    said = run("lint", str(CHART), "--strict")
    assert "0 chart(s) failed" in said
    assert "[WARNING]" not in said


@EVERY_RELEASE
def test_u109_a_selector_selects_its_own_pods_and_no_others(given: Json) -> None:
    """U109: also with two releases in one namespace."""
    both = [*rendered(given), *rendered(given, release="second")]
    templates = dict(pods(both))
    assert len(templates) == 2 * len(dict(pods(rendered(given))))
    for name, workload in of_kind(both, "DaemonSet", "Deployment", "StatefulSet").items():
        wanted = workload["spec"]["selector"]["matchLabels"].items()
        selected = [
            other
            for other, template in templates.items()
            if wanted <= template["metadata"]["labels"].items()
        ]
        assert selected == [name]


def test_two_releases_make_no_object_of_one_name() -> None:
    """In one namespace, and of one name in two namespaces what stands in none."""
    first, second = rendered(), rendered(release="second")
    assert not identities(first) & identities(second)
    elsewhere = rendered({}, "--namespace", "other")
    cluster_wide = {"ClusterRole", "ClusterRoleBinding"}
    assert not {
        each for each in identities(first) & identities(elsewhere) if each[0] in cluster_wide
    }


def test_u109_each_release_has_a_leader_of_its_own() -> None:
    """Else the controllers of the second one would wait for those of the first for ever."""
    leases = set()
    for release in ("slicewire", "second"):
        objects = rendered(release=release)
        (controller,) = of_kind(objects, "Deployment").values()
        (container,) = controller["spec"]["template"]["spec"]["containers"]
        variables = {each["name"]: each.get("value") for each in container["env"]}
        (lease,) = of_kind(objects, "Lease").values()
        assert variables["SLICEWIRE_LEASE_NAME"] == lease["metadata"]["name"]
        roles = of_kind(objects, "Role").values()
        allowed = {
            name
            for role in roles
            for rule in role["rules"]
            for name in rule.get("resourceNames", ())
        }
        assert lease["metadata"]["name"] in allowed
        leases.add(lease["metadata"]["name"])
    assert len(leases) == 2


def identities(objects: list[Json]) -> set[tuple[str, str]]:
    """Kind and name."""
    return {(each["kind"], each["metadata"]["name"]) for each in objects}


@EVERY_RELEASE
def test_only_the_controller_has_rights(given: Json) -> None:
    """Each right is a verb on a kind: no wildcard, no Secret but the making of the keys."""
    objects = rendered(given)
    bound = {
        subject["name"]
        for each in of_kind(objects, "RoleBinding", "ClusterRoleBinding").values()
        for subject in each["subjects"]
    }
    own_keys = not given.get("bus", {}).keys() & {"url", "keysSecret"}
    jobs = {"slicewire-cleanup", "slicewire-keys"} if own_keys else {"slicewire-cleanup"}
    assert bound == {"slicewire-controller"} | jobs
    for name, role in of_kind(objects, "Role", "ClusterRole").items():
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            if "secrets" in rule["resources"]:
                assert (name, rule["verbs"]) == ("slicewire-keys", ["create"])


@EVERY_RELEASE
def test_node_services_hold_nothing_that_the_api_server_takes(given: Json) -> None:
    """No token is mounted; the one there is has another audience, or none is there at all."""
    for name, template in pods(rendered(given)):
        if name in {"slicewire-controller", "slicewire-cleanup", "slicewire-keys"}:
            continue
        assert template["spec"]["automountServiceAccountToken"] is False
        for volume in template["spec"]["volumes"]:
            for source in volume.get("projected", {}).get("sources", []):
                assert source["serviceAccountToken"]["audience"] == names.BUS_AUDIENCE


@EVERY_RELEASE
def test_only_what_needs_it_is_more_than_locked(given: Json) -> None:
    """Roots are read-only; agent and MPS are privileged, the advertiser alone has SYS_ADMIN."""
    for name, template in pods(rendered(given)):
        (container,) = template["spec"]["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security.get("privileged", False) == (
            name in {"slicewire-agent", "slicewire-mps"} and "simulation" not in given
        )
        if "privileged" not in security:
            added = security["capabilities"].get("add", [])
            assert security["capabilities"]["drop"] == ["ALL"]
            real = name == "slicewire-advertiser" and "simulation" not in given
            assert added == (["SYS_ADMIN"] if real else [])
        assert "limits" in container["resources"]
        assert not template["spec"].get("hostNetwork")


@pytest.mark.parametrize(
    ("given", "sees", "period"),
    [
        pytest.param({}, True, "5", id="defaults"),
        pytest.param({"usage": {"byPod": False}}, False, "5", id="not by pod"),
        pytest.param({"usage": {"periodSeconds": 0}}, False, "0", id="never"),
        pytest.param({"simulation": {"enabled": True}}, False, "5", id="simulated"),
    ],
)
def test_the_advertiser_sees_processes_where_use_is_told_by_pod(
    given: Json, sees: bool, period: str
) -> None:
    """Pids of the node, and names of logs; the logs themselves are not to be reached."""
    spec = dict(pods(rendered(given)))["slicewire-advertiser"]["spec"]
    (container,) = spec["containers"]
    assert spec.get("hostPID", False) is sees
    assert environment(container)["SLICEWIRE_USAGE_PERIOD_S"] == period
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    assert ("log-links" in mounts) is sees
    if sees:
        assert mounts["log-links"]["readOnly"] is True
    paths = {each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    assert paths - {"/var/log/containers"} == {"/run/slicewire", "/var/lib/slicewire"}


def test_mps_daemons_outlive_an_upgrade() -> None:
    """With a pod end its daemons and their clients, so only a person replaces one."""
    daemon_sets = of_kind(rendered({"mps": {"enabled": True}}), "DaemonSet")
    assert daemon_sets["slicewire-mps"]["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert "slicewire-mps" not in of_kind(rendered(), "DaemonSet")


@pytest.mark.parametrize("simulated", [False, True], ids=["real", "simulated"])
def test_what_mps_daemons_need(simulated: bool) -> None:
    """Pids of the node, the driver's programs, and mounts that the host sees; else nothing."""
    given = {"mps": {"enabled": True}, "simulation": {"enabled": simulated}}
    spec = dict(pods(rendered(given)))["slicewire-mps"]["spec"]
    (container,) = spec["containers"]
    assert spec.get("hostPID", False) is not simulated
    assert container["args"][-1] == "mps"
    told = environment(container)
    assert told.get("NVIDIA_DRIVER_CAPABILITIES") == (None if simulated else "compute,utility")
    assert told.get("SLICEWIRE_SHARED_MEMORY_MIB") == (None if simulated else "1024")
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    assert mounts["mps"]["mountPath"] == mps.ROOT
    assert mounts["mps"].get("mountPropagation") == (None if simulated else "Bidirectional")
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["mps"]["hostPath"]["path"] == AllocatorSettings(node_name="n").mps_dir
    assert not {"bus", "state"} & volumes.keys()


@EVERY_RELEASE
def test_containers_have_no_variables_in_bulk(given: Json) -> None:
    """F09: texts in an environment never change; the controller reads ConfigMaps by the API."""
    for _name, template in pods(rendered(given)):
        for container in template["spec"]["containers"]:
            assert "envFrom" not in container
            for variable in container.get("env", []):
                assert "configMapKeyRef" not in variable.get("valueFrom", {})


@EVERY_RELEASE
def test_the_controller_is_told_what_the_values_say(given: Json) -> None:
    """Chart and rehearsals make the same settings of the same values."""
    (container,) = of_kind(rendered(given), "Deployment")["slicewire-controller"]["spec"][
        "template"
    ]["spec"]["containers"]
    wanted = chart_values.variables(merged(DEFAULTS, given))
    told = environment(container)
    assert {name: told.get(name) for name in wanted} == wanted


def merged(below: Json, above: Json) -> Json:
    """Values over defaults, as helm lays them."""
    return below | {
        name: merged(below[name], value) if isinstance(value, dict) and name in below else value
        for name, value in above.items()
    }


def test_each_part_has_its_own_account_and_that_account_its_role() -> None:
    """The names that the controller is told are those of the DaemonSets' accounts."""
    objects = rendered()
    (container,) = of_kind(objects, "Deployment")["slicewire-controller"]["spec"]["template"][
        "spec"
    ]["containers"]
    told = environment(container)["SLICEWIRE_BUS_ACCOUNTS"]
    roles = ControllerSettings.model_validate({"bus_accounts": told}).bus_accounts
    accounts = {
        f"{NAMESPACE}:{each['spec']['template']['spec']['serviceAccountName']}": name
        for name, each in of_kind(objects, "DaemonSet").items()
    }
    assert {account: f"slicewire-{role}" for account, role in roles.items()} == accounts
    assert set(roles.values()) == set(table.NODE_ROLES)


def test_nats_gets_the_contract_s_configuration_and_every_key() -> None:
    """The ConfigMap is the generated file, and each variable in it is set."""
    objects = rendered()
    configuration = of_kind(objects, "ConfigMap")["slicewire-nats"]["data"]["nats.conf"]
    assert configuration == chart_file.text()
    (container,) = of_kind(objects, "StatefulSet")["slicewire-nats"]["spec"]["template"]["spec"][
        "containers"
    ]
    given = {each["name"]: each["valueFrom"]["secretKeyRef"]["key"] for each in container["env"]}
    assert given == {key.variable: key.public_file for key in Key}


def test_real_gpus_and_simulated_ones_never_share_a_node() -> None:
    """Simulated services keep off nodes that a label calls GPU nodes."""
    labels = set(DEFAULTS["nodes"]["gpuLabels"])
    for given, operator in (({}, "In"), ({"simulation": {"enabled": True}}, "NotIn")):
        for name, each in of_kind(rendered(given), "DaemonSet").items():
            terms = each["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"
            ]["nodeSelectorTerms"]
            asked = [one for term in terms for one in term["matchExpressions"]]
            assert {one["key"] for one in asked} == labels, name
            assert {one["operator"] for one in asked} == {operator}
            assert len(terms) == (len(labels) if operator == "In" else 1)


def test_simulated_services_run_the_same_commands() -> None:
    """Advertiser and agent on the owner's socket, the allocator with a stand-in for devices."""
    simulated = of_kind(rendered({"simulation": {"enabled": True}}), "DaemonSet")
    real = of_kind(rendered(), "DaemonSet")
    assert simulated.keys() - real.keys() == {"slicewire-simulator"}
    for name, each in real.items():
        before, after = (
            one["spec"]["template"]["spec"]["containers"][0] for one in (each, simulated[name])
        )
        prefix = ["simulate", "--socket", "/run/slicewire/gpus.sock", "--"]
        assert after["args"] == (before["args"] if "allocator" in name else prefix + before["args"])
    allocator = simulated["slicewire-allocator"]["spec"]["template"]["spec"]["containers"][0]
    assert environment(allocator)["SLICEWIRE_DEV_STAND_IN"] == "/dev/null"


@pytest.mark.parametrize("off", ["advertiser", "allocator", "agent"])
def test_each_part_can_be_switched_off(off: str) -> None:
    """Nothing of it is left, and nothing else changes but who may reach the bus."""
    objects, without = rendered(), rendered({off: {"enabled": False}})
    gone = identities(objects) - identities(without)
    assert gone == {("DaemonSet", f"slicewire-{off}"), ("ServiceAccount", f"slicewire-{off}")}


def test_an_upgrade_leaves_no_gap() -> None:
    """U111: the old pod goes when the new one is there; both may hold the node's folders."""
    for name, each in of_kind(rendered(), "DaemonSet").items():
        assert each["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 0, name
        assert not each["spec"]["template"]["spec"].get("hostNetwork")
        (container,) = each["spec"]["template"]["spec"]["containers"]
        assert "readinessProbe" not in container  # one that waits for its lock is ready


def test_two_controllers_have_a_budget() -> None:
    """A drain of nodes takes one at a time; one alone may go."""
    assert "slicewire-controller" in of_kind(rendered(), "PodDisruptionBudget")
    assert not of_kind(rendered({"controller": {"replicas": 1}}), "PodDisruptionBudget")


def test_every_workload_s_pods_are_in_a_network_policy() -> None:
    """All but the Jobs, which are gone when anybody else is there."""
    objects = rendered({"simulation": {"enabled": True}, "mps": {"enabled": True}})
    selectors = [each["spec"]["podSelector"] for each in of_kind(objects, "NetworkPolicy").values()]
    for name, workload in of_kind(objects, *WORKLOADS).items():
        labels = workload["spec"]["template"]["metadata"]["labels"]
        hits = [selector for selector in selectors if selects(selector, labels)]
        assert len(hits) == (0 if workload["kind"] == "Job" else 1), name


def test_node_services_reach_dns_wherever_its_pods_listen() -> None:
    """Policies see the port of the pod, not of the Service: 53 as a rule, 5353 on OpenShift."""
    nodes = of_kind(rendered(), "NetworkPolicy")["slicewire-nodes"]
    (egress,) = nodes["spec"]["egress"]
    ports = {(each["port"], each["protocol"]) for each in egress["ports"]}
    bus = {(4222, "TCP")}
    assert ports == {(port, name) for port in (53, 5353) for name in ("UDP", "TCP")} | bus


def selects(selector: Json, labels: dict[str, str]) -> bool:
    """Whether a selector with In alone selects these labels."""
    expressions: list[Any] = selector.get("matchExpressions", [])
    return selector["matchLabels"].items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in expressions
    )


def test_container_images_are_pinned_and_pulled_only_when_missing() -> None:
    """No `latest`, and no `Always` that an air-gapped cluster cannot have."""
    images = [
        (container["image"], container["imagePullPolicy"])
        for _name, template in pods(rendered({"simulation": {"enabled": True}}))
        for container in template["spec"]["containers"]
    ]
    assert {policy for _image, policy in images} == {"IfNotPresent"}
    assert all(image.rpartition(":")[2] not in {"", "latest"} for image, _policy in images)
    assert len({image for image, _policy in images}) == len(
        list(itertools.chain(["node", "cluster", "nats"]))
    )


def test_hooks_leave_nothing_and_come_in_their_order() -> None:
    """Account and rights before the Job; all of them go with its success."""
    hooks = [each for each in rendered() if "annotations" in each["metadata"]]
    weights = {each["kind"]: int(each["metadata"]["annotations"][HOOK_WEIGHT]) for each in hooks}
    assert weights["Role"] < weights["RoleBinding"] < weights["Job"]
    assert weights["ServiceAccount"] < weights["Job"]
    for each in hooks:
        policy = each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded"


def test_the_hook_s_secret_is_the_one_that_is_mounted() -> None:
    """Whoever makes the keys and whoever reads them mean one Secret."""
    text = json.dumps(rendered())
    assert "--name=slicewire-bus" in text
    assert '"secretName": "slicewire-bus"' in text
