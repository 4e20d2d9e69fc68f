"""Stories are read as they are written, and refused with place and suggestion where wrong."""

from __future__ import annotations

import textwrap

import pytest

from services.rehearsal import language
from services.rehearsal.story import (
    About,
    Budget,
    Condition,
    ConfigMap,
    Container,
    Cordon,
    Delete,
    Expect,
    Fault,
    Label,
    Manage,
    Mark,
    Never,
    Owner,
    Pod,
    Reboot,
    Say,
    Service,
    Story,
    Uses,
    Verb,
    Wait,
)
from shared.domain.errors import Problem, RefusedError

NODES = """\
nodes:
  - name: gpu-a.lan
    gpus: [a100-80gb, t4]
    labels: {team: vision}
    kubelet: {statusPeriod: 500ms, unorderedIds: false}
"""


def read(steps: str, frame: str = NODES) -> Story:
    """Read a story of these steps on the usual node."""
    return language.read(frame + "steps:\n" + textwrap.indent(textwrap.dedent(steps), "  "), "s")


def refused(steps: str, frame: str = NODES) -> Problem:
    """The one problem of a story that is refused."""
    with pytest.raises(RefusedError) as caught:
        read(steps, frame)
    assert len(caught.value.problems) == 1, caught.value
    return caught.value.problems[0]


def action(step: str) -> object:
    """What one step does, after one that makes the pod `a`."""
    return read("- pod: {name: a, requests: {nvidia.com/gpu: 1}}\n" + step).steps[-1].action


def test_a_node_has_name_gpus_labels_and_switches() -> None:
    """The frame of a story becomes values."""
    story = read("- wait: 1s")
    (node,) = story.nodes
    assert (node.name, node.gpus, node.labels) == (
        "gpu-a.lan",
        ("a100-80gb", "t4"),
        {"team": "vision"},
    )
    assert node.kubelet.status_period == 0.5
    assert not node.kubelet.unordered_ids


def test_config_maps_keep_their_texts() -> None:
    """A block text arrives as it stands, an empty one stays empty."""
    frame = NODES + 'configMaps:\n  sharing:\n    any: |-\n      version: v1\n    other: ""\n'
    assert read("- wait: 1s", frame).config_maps == {"sharing": {"any": "version: v1", "other": ""}}


STEPS: dict[str, tuple[str, object]] = {
    "say": ("- say: Hello", Say(text="Hello")),
    "wait": ("- wait: 1m2s", Wait(seconds=62)),
    "short wait": ("- wait: 250ms", Wait(seconds=0.25)),
    "configMap": (
        "- configMap: {name: sharing, data: {any: x}}",
        ConfigMap(name="sharing", data={"any": "x"}),
    ),
    "configMap deleted": (
        "- configMap: {name: sharing, data: null}",
        ConfigMap(name="sharing", data=None),
    ),
    "label": (
        "- label: {node: gpu-a.lan, set: {a: b, c: null}}",
        Label(node="gpu-a.lan", labels={"a": "b", "c": None}),
    ),
    "pod of several containers": (
        "- pod: {name: b, namespace: ml, node: gpu-a.lan, labels: {x: y},"
        " containers: [{name: one, requests: {r/x: 2}}, {name: two}]}",
        Pod(
            name="b",
            namespace="ml",
            node="gpu-a.lan",
            labels={"x": "y"},
            containers=(
                Container(name="one", requests={"r/x": 2}),
                Container(name="two", requests={}),
            ),
        ),
    ),
    "pod of a ReplicaSet": (
        "- pod: {name: c, requests: {r/x: 1}, owner: ReplicaSet, graceSeconds: 0,"
        " init: {requests: {r/x: 2}}, uses: {memoryMiB: 512, sm: 40}}",
        Pod(
            name="c",
            containers=(Container(name="main", requests={"r/x": 1}),),
            init=(Container(name="init", requests={"r/x": 2}),),
            owner=Owner.REPLICA_SET,
            grace_seconds=0,
            uses=Uses(memory_mib=512, sm_percent=40),
        ),
    ),
    "pdb": (
        "- pdb: {name: b, selector: {app: x}, minAvailable: 1}",
        Budget(name="b", selector={"app": "x"}, min_available=1),
    ),
    "pdb of a share": (
        '- pdb: {name: b, namespace: ml, selector: {app: x}, minAvailable: "50%"}',
        Budget(name="b", namespace="ml", selector={"app": "x"}, min_available="50%"),
    ),
    "reboot": ("- reboot: {node: gpu-a.lan}", Reboot(node="gpu-a.lan")),
    "mark": ("- mark: before", Mark(name="before")),
    "delete": ("- delete: {pod: a, force: true}", Delete(pod="default/a", force=True)),
    "cordon": ("- cordon: {node: gpu-a.lan}", Cordon(node="gpu-a.lan", unschedulable=True)),
    "uncordon": ("- uncordon: {node: gpu-a.lan}", Cordon(node="gpu-a.lan", unschedulable=False)),
    "xid": (
        "- fault: {node: gpu-a.lan, gpu: 1, xid: 79}",
        Fault(node="gpu-a.lan", heal=False, what={"gpu": 1, "xid": 79}),
    ),
    "lost, healed": (
        "- heal: {node: gpu-a.lan, gpu: 1, lost: true}",
        Fault(node="gpu-a.lan", heal=True, what={"gpu": 1, "lost": True}),
    ),
    "nvml": (
        "- fault: {node: gpu-a.lan,"
        " nvml: {call: nvmlDeviceGetUUID, error: UNKNOWN, nth: 2, times: 3}}",
        Fault(
            node="gpu-a.lan",
            heal=False,
            what={"nvml": {"call": "nvmlDeviceGetUUID", "error": "UNKNOWN", "nth": 2, "times": 3}},
        ),
    ),
    "xid of an instance": (
        "- fault: {node: gpu-a.lan, gpu: 0, xid: 94, instance: 1}",
        Fault(node="gpu-a.lan", heal=False, what={"gpu": 0, "xid": 94, "instance": 1}),
    ),
    "mode stays pending": (
        "- fault: {node: gpu-a.lan, modeStaysPending: true}",
        Fault(node="gpu-a.lan", heal=False, what={"modeStaysPending": True}),
    ),
    "clients": (
        "- heal: {node: gpu-a.lan, clients: [{gpu: 0, name: dcgm, pid: 4711}]}",
        Fault(
            node="gpu-a.lan",
            heal=True,
            what={"clients": [{"gpu": 0, "name": "dcgm", "pid": 4711}]},
        ),
    ),
    "kill": (
        "- kill: {service: allocator, node: gpu-a.lan}",
        Manage(verb=Verb.KILL, service=Service.ALLOCATOR, node="gpu-a.lan"),
    ),
    "restart": ("- restart: {service: bus}", Manage(verb=Verb.RESTART, service=Service.BUS)),
    "expect a node": (
        "- expect: {node: gpu-a.lan, labels: {a: ~b, c: null, d: 4}, slots: {r: {free: 1}},"
        " within: 5s, for: 1s}",
        Expect(
            conditions=(
                Condition(
                    about=About.NODE,
                    name="gpu-a.lan",
                    wants=(
                        ("labels", {"a": "~b", "c": None, "d": "4"}),
                        ("slots", {"r": {"free": 1}}),
                    ),
                ),
            ),
            within_s=5,
            for_s=1,
        ),
    ),
    "expect a pod and the API": (
        "- expect: {pod: a, node: gpu-a.lan, uuids: [x], devices: 4, api: {watches: 3}}",
        Expect(
            conditions=(
                Condition(
                    about=About.POD,
                    name="default/a",
                    wants=(("node", "gpu-a.lan"), ("uuids", ["x"]), ("devices", 4)),
                ),
                Condition(about=About.API, name="", wants=(("watches", 3),)),
            )
        ),
    ),
    "expect a reason": (
        "- expect: {why: {pod: a, reason: AllHeld, hint: ~held by}}",
        Expect(
            conditions=(
                Condition(
                    about=About.WHY,
                    name="",
                    given={"pod": "default/a"},
                    wants=(("reason", "AllHeld"), ("hint", "~held by")),
                ),
            )
        ),
    ),
    "expect holders": (
        "- expect: {who: {node: gpu-a.lan, gpu: 0, pods: [a]}}",
        Expect(
            conditions=(
                Condition(
                    about=About.WHO,
                    name="",
                    given={"node": "gpu-a.lan", "gpu": 0},
                    wants=(("pods", ["default/a"]),),
                ),
            )
        ),
    ),
    "never a trace": (
        "- never: {trace: {from: pod, covers: [x], connected: true}}",
        Never(
            conditions=(
                Condition(
                    about=About.TRACE,
                    name="",
                    given={"from": "pod"},
                    wants=(("covers", ["x"]), ("connected", True)),
                ),
            )
        ),
    ),
}


@pytest.mark.parametrize(("text", "wanted"), STEPS.values(), ids=STEPS.keys())
def test_each_step_is_read(text: str, wanted: object) -> None:
    """A step's text becomes the value that the engine plays."""
    assert action(text) == wanted


def test_steps_know_their_line_kind_and_name() -> None:
    """Results are told by line; a trace is looked for from a step's name."""
    step = read("- wait: 1s\n- wait: 2s\n  as: pause").steps[1]
    assert (step.line, step.kind, step.name) == (8, "wait", "pause")


P = "- pod: {name: a, requests: {nvidia.com/gpu: 1}}\n"
WRONG: dict[str, tuple[str, str, int, str, str]] = {
    # steps, path, line, part of the message, suggestion
    "unknown step": (
        "- expct: {}",
        "steps[0].expct",
        7,
        'unknown key "expct"',
        'did you mean "expect"?',
    ),
    "a process that computes more than always": (
        "- pod: {name: a, requests: {}, uses: {memoryMiB: 1, sm: 101}}",
        "steps[0].pod.uses.sm",
        7,
        "found 101, accepted is a part of the time from 0 to 100",
        "",
    ),
    "two steps in one": ("- {wait: 1s, say: x}", "steps[0]", 7, "a step has one of", ""),
    "no step at all": ("- {as: x}", "steps[0]", 7, "a step has one of", ""),
    "unknown condition": (
        "- expect: {node: gpu-a.lan, alocatable: {a: 1}, lists: 1}",
        "steps[0].expect.alocatable",
        7,
        'unknown key "alocatable"',
        'did you mean "allocatable"?',
    ),
    "unknown reason": (
        "- pod: {name: a, requests: {}}\n- expect: {why: {pod: a, reason: Allheld}}",
        "steps[1].expect.why.reason",
        8,
        'there is no reason "Allheld"',
        'did you mean "AllHeld"?',
    ),
    "a reason for an unknown pod": (
        "- pod: {name: abc, requests: {}}\n- expect: {why: {pod: abx, reason: AllHeld}}",
        "steps[1].expect.why.pod",
        8,
        'no step before this one makes the pod "default/abx"',
        'did you mean "default/abc"?',
    ),
    "an MPS fault that is none": (
        "- fault: {node: gpu-a.lan, mps: up}",
        "steps[0].fault",
        7,
        "is no fault of a GPU",
        "",
    ),
    "an MPS service that does not run": (
        "- kill: {service: mps, node: gpu-a.lan}",
        "steps[0].kill.service",
        7,
        "no MPS service runs",
        "write values: {mps: {enabled: true}}",
    ),
    "a process that says not what it takes": (
        "- pod: {name: a, requests: {}, uses: {}}",
        "steps[0].pod.uses",
        7,
        'the key "memoryMiB" is missing',
        "",
    ),
    "a budget of half a pod": (
        "- pdb: {name: b, selector: {app: x}, minAvailable: half}",
        "steps[0].pdb.minAvailable",
        7,
        'found "half", accepted is a whole number or a percentage',
        'write 1 or "50%"',
    ),
    "a client of a GPU that the node does not have": (
        "- fault: {node: gpu-a.lan, clients: [{gpu: 2, name: dcgm, pid: 1}]}",
        "steps[0].fault.clients[0].gpu",
        7,
        "the node gpu-a.lan has GPUs 0 to 1",
        "",
    ),
    "a client without a name": (
        "- fault: {node: gpu-a.lan, clients: [{gpu: 0, pid: 1}]}",
        "steps[0].fault",
        7,
        "write {gpu: <index>, name: <program>, pid: <number>}",
        "",
    ),
    "a mode that stays pending until nobody knows when": (
        "- fault: {node: gpu-a.lan, modeStaysPending: false}",
        "steps[0].fault",
        7,
        "modeStaysPending is False: write true",
        "",
    ),
    "instances of a GPU that the node does not have": (
        "- expect: {node: gpu-a.lan, geometry: {2: {}}}",
        "steps[0].expect.geometry.2",
        7,
        "the node gpu-a.lan has GPUs 0 to 1",
        "",
    ),
    "no GPU": (
        "- expect: {node: gpu-a.lan, kept: {GPU-1: 2}}",
        "steps[0].expect.kept.GPU-1",
        7,
        "found no index of a GPU",
        "write 0, 1, …",
    ),
    "an owner that stories do not have": (
        "- pod: {name: a, requests: {}, owner: Deployment}",
        "steps[0].pod.owner",
        7,
        'there is no owner "Deployment" here, only ReplicaSet, DaemonSet, none',
        "",
    ),
    "nothing expected under a key": (
        "- expect: {node: gpu-a.lan, allocatable: {}}",
        "steps[0].expect.allocatable",
        7,
        "nothing is said of what must be seen",
        "",
    ),
    "nothing expected of slots": (
        "- expect: {node: gpu-a.lan, slots: {r/x: {}}}",
        "steps[0].expect.slots.r/x",
        7,
        "nothing is said of its slots, accepted here: ",
        "",
    ),
    "a list of expectations": (
        "- expect: [node]",
        "steps[0].expect",
        7,
        "found a list, accepted is a mapping with node, ",
        "",
    ),
    "more than all pods of a budget": (
        '- pdb: {name: b, selector: {a: b}, minAvailable: "101%"}',
        "steps[0].pdb.minAvailable",
        7,
        'found "101%", accepted is a whole number or a percentage',
        'write 1 or "50%"',
    ),
    "nothing expected of holders": (
        "- expect: {who: {node: gpu-a.lan, gpu: 0}}",
        "steps[0].expect.who",
        7,
        "nothing is said of what must be seen, accepted here: pods",
        "",
    ),
    "a label that no node can have": (
        "- label: {node: gpu-a.lan, set: {far vision: x}}",
        "steps[0].label",
        7,
        'metadata.labels: Invalid value: "far vision": name part',
        "",
    ),
    "a pod that no cluster takes": (
        "- pod: {name: A_b, requests: {r/x: 1}}",
        "steps[0].pod",
        7,
        'metadata.name: Invalid value: "A_b": a lowercase RFC 1123',
        "",
    ),
    "a namespace that no cluster takes": (
        "- pod: {name: a, namespace: ml_, requests: {r/x: 1}}",
        "steps[0].pod",
        7,
        'metadata.name: Invalid value: "ml_": a lowercase RFC 1123',
        "",
    ),
    "a budget that no cluster takes": (
        "- pdb: {name: P, selector: {a: b}, minAvailable: 1}",
        "steps[0].pdb",
        7,
        'metadata.name: Invalid value: "P": a lowercase RFC 1123',
        "",
    ),
    "a ConfigMap that no cluster takes": (
        "- configMap: {name: sharing, data: {a/b: x}}",
        "steps[0].configMap",
        7,
        'data[a/b]: Invalid value: "a/b"',
        "",
    ),
    "a number of an XID": (
        "- fault: {node: gpu-a.lan, gpu: 0, xid: -4}",
        "steps[0].fault.xid",
        7,
        "found -4, accepted is a whole number from 1 up",
        "",
    ),
    "which call goes wrong": (
        "- fault: {node: gpu-a.lan, nvml: {call: nvmlDeviceGetName, error: UNKNOWN, nth: soon}}",
        "steps[0].fault.nvml.nth",
        7,
        'found the text "soon", accepted is a whole number from 1 up',
        "",
    ),
    "a GPU of a call that is not there": (
        "- fault: {node: gpu-a.lan, nvml: {call: nvmlDeviceGetName, error: UNKNOWN, gpu: 4}}",
        "steps[0].fault.nvml.gpu",
        7,
        "the node gpu-a.lan has GPUs 0 to 1",
        "",
    ),
    "nothing expected": (
        "- expect: {node: gpu-a.lan, within: 1s}",
        "steps[0].expect",
        7,
        "nothing is said of what must be seen",
        "",
    ),
    "a bare number for a duration": (
        "- wait: 12",
        "steps[0].wait",
        7,
        "found 12, accepted is a duration",
        "write 12s",
    ),
    "a text for a number": (
        '- expect: {node: gpu-a.lan, lists: "1"}',
        "steps[0].expect.lists",
        7,
        'found the text "1"',
        "write 1",
    ),
    "unknown node": (
        "- cordon: {node: gpu-b.lan}",
        "steps[0].cordon.node",
        7,
        'there is no node "gpu-b.lan" here',
        'did you mean "gpu-a.lan"?',
    ),
    "unknown pod": (
        f"{P}- delete: {{pod: aa}}",
        "steps[1].delete.pod",
        8,
        'no step before this one makes the pod "default/aa"',
        'did you mean "default/a"?',
    ),
    "unknown service": (
        "- kill: {service: allocater, node: gpu-a.lan}",
        "steps[0].kill.service",
        7,
        'there is no service "allocater"',
        'did you mean "allocator"?',
    ),
    "a node's service without its node": (
        "- kill: {service: kubelet}",
        "steps[0].kill",
        7,
        'the key "node" is missing',
        "",
    ),
    "the bus of a node": (
        "- kill: {service: bus, node: gpu-a.lan}",
        "steps[0].kill.node",
        7,
        "the bus belongs to no node",
        "leave the node out",
    ),
    "a GPU that the node does not have": (
        "- fault: {node: gpu-a.lan, gpu: 2, xid: 79}",
        "steps[0].fault.gpu",
        7,
        "the node gpu-a.lan has GPUs 0 to 1",
        "",
    ),
    "a trace from no step": (
        f"{P}- expect: {{trace: {{from: pods, covers: [x]}}}}",
        "steps[1].expect.trace.from",
        8,
        'there is no earlier step "pods"',
        'did you mean "pod"?',
    ),
    "a bad pattern": (
        f'{P}- expect: {{pod: a, phase: "~("}}',
        "steps[1].expect.phase",
        8,
        "not a regular expression",
        "write the text without ~",
    ),
    "a name used twice": (
        "- {wait: 1s, as: x}\n- {wait: 1s, as: x}",
        "steps[1].as",
        8,
        'a step before this one is already called "x"',
        "",
    ),
    "a pod that asks twice": (
        "- pod: {name: a, requests: {r/x: 1}, containers: []}",
        "steps[0].pod",
        7,
        "a pod has either requests or containers",
        "",
    ),
    "two faults in one": (
        "- fault: {node: gpu-a.lan, gpu: 0, xid: 1, lost: true}",
        "steps[0].fault",
        7,
        "is no fault of a GPU",
        "",
    ),
    "a call that is not simulated": (
        "- fault: {node: gpu-a.lan, nvml: {call: nvmlDeviceGetUID, error: UNKNOWN}}",
        "steps[0].fault",
        7,
        "did you mean nvmlDeviceGetUUID?",
        "",
    ),
    "a key twice": (
        "- {wait: 1s, wait: 2s}",
        "steps[0].wait",
        7,
        "stands twice",
        "keep one of the two",
    ),
}


@pytest.mark.parametrize(
    ("steps", "path", "line", "message", "suggestion"), WRONG.values(), ids=WRONG.keys()
)
def test_wrong_steps_are_refused(
    steps: str, path: str, line: int, message: str, suggestion: str
) -> None:
    """Each mistake is named where it stands, with what to write."""
    problem = refused(steps)
    assert (problem.path, problem.line, problem.suggestion) == (path, line, suggestion)
    assert message in problem.message


FRAMES: dict[str, tuple[str, str, str]] = {
    "unknown part": (NODES + "node: []\n", "node", 'did you mean "nodes"?'),
    "unknown GPU": (
        NODES.replace("t4]", "a100-80g]"),
        "nodes[0].gpus[1]",
        'did you mean "a100-80gb"?',
    ),
    "unknown key of a GPU": (
        NODES.replace("t4]", "{model: t4, memory: 1}]"),
        "nodes[0].gpus[1].memory",
        'did you mean "memoryMiB"?',
    ),
    "a GPU that cannot be": (
        NODES.replace("t4]", "{model: t4, migMode: on}]"),
        "nodes[0].gpus",
        "",
    ),
    "a size that is none": (
        NODES.replace("t4]", "{model: t4, memoryMiB: x}]"),
        "nodes[0].gpus[1].memoryMiB",
        "",
    ),
    "a size below 1": (
        NODES.replace("t4]", "{model: t4, memoryMiB: -3}]"),
        "nodes[0].gpus[1].memoryMiB",
        "",
    ),
    "instances that are no list": (
        NODES.replace("t4]", "{model: a100-80gb, instances: 3}]"),
        "nodes[0].gpus[1].instances",
        "",
    ),
    "an instance without a start": (
        NODES.replace("t4]", "{model: a100-80gb, instances: [{profile: 1g.10gb}]}]"),
        "nodes[0].gpus[1].instances[0]",
        "",
    ),
    "ids that are no map": (
        NODES.replace("t4]", "{model: a100-80gb, profileIds: 3}]"),
        "nodes[0].gpus[1].profileIds",
        "",
    ),
    "a label that no node can have": (
        NODES.replace("team: vision", 'team: "far vision"'),
        "nodes[0].labels",
        "",
    ),
    "a key that no ConfigMap can have": (
        NODES + 'configMaps: {sharing: {a/b: ""}}\n',
        "configMaps.sharing",
        "",
    ),
    "unknown switch": (
        NODES.replace("unorderedIds", "unordered"),
        "nodes[0].kubelet.unordered",
        'did you mean "unorderedIds"?',
    ),
    "bad node name": (
        NODES.replace("gpu-a.lan", "gpu_a"),
        "nodes[0].name",
        "write one like gpu-a.lan",
    ),
    "unknown chart value": (
        NODES + "values: {sharing: {defautKey: any}}\n",
        "values.sharing.defautKey",
        'did you mean "sharing.defaultKey"?',
    ),
    "a chart value that the controller would not start with": (
        NODES + "values:\n  drain:\n    timeoutSeconds: soon\n",
        "values.drain.timeoutSeconds",
        "",
    ),
    "a chart value of a part of the nodes": (
        NODES + "values: {mps: {enabled: no}}\n",
        "values.mps.enabled",
        "write false",
    ),
    "a UUID that no GPU has": (
        NODES.replace("t4]", "{model: t4, uuid: one}]"),
        "nodes[0].gpus[1].uuid",
        "write GPU-one",
    ),
    "the same GPU in two nodes": (
        "nodes:\n"
        "  - {name: gpu-a.lan, gpus: [{model: t4, uuid: GPU-1}]}\n"
        "  - {name: gpu-b.lan, gpus: [l4, {model: t4, uuid: GPU-1}]}\n",
        "nodes[1]",
        "give each GPU its own",
    ),
    "no nodes": ("nodes: []\n", "nodes", ""),
    "a kubelet that never rests": (
        NODES.replace("500ms", "0s"),
        "nodes[0].kubelet.statusPeriod",
        "write 1s or 100ms",
    ),
    "a model under the name that it is sold by": (
        NODES.replace("a100-80gb", "NVIDIA A100-SXM4-80GB"),
        "nodes[0].gpus[0]",
        'did you mean "a100-80gb"?',
    ),
    "node twice": (NODES + "  - {name: gpu-a.lan}\n", "nodes[1]", "give each node its own name"),
}


@pytest.mark.parametrize(("frame", "path", "suggestion"), FRAMES.values(), ids=FRAMES.keys())
def test_a_wrong_frame_is_refused(frame: str, path: str, suggestion: str) -> None:
    """Nodes and parts are as strict as steps."""
    problem = refused("- wait: 1s", frame)
    assert (problem.path, problem.suggestion) == (path, suggestion)


def test_all_mistakes_in_values_are_told_at_once() -> None:
    """Names, values of the controller, switches of the nodes: each with its path."""
    values = "values: {mps: {enabled: yes}, drain: {cordn: x, barePods: y}}\n"
    with pytest.raises(RefusedError) as caught:
        read("- wait: 1s", NODES + values)
    paths = {each.path for each in caught.value.problems}
    assert paths == {"values.mps.enabled", "values.drain.cordn", "values.drain.barePods"}


def test_a_node_of_one_gpu_says_which_it_has() -> None:
    """A range from 0 to 0 is none."""
    frame = NODES.replace("[a100-80gb, t4]", "[t4]")
    problem = refused("- fault: {node: gpu-a.lan, gpu: 1, xid: 79}", frame)
    assert problem.message == "the node gpu-a.lan has GPU 0 only"


def test_a_pod_without_a_name_is_nobodys_neighbour() -> None:
    """What is proposed in place of an unknown pod is a pod."""
    with pytest.raises(RefusedError) as caught:
        read("- pod: {requests: {r/x: 1}}\n- expect: {pod: b, phase: Running}")
    assert [each.suggestion for each in caught.value.problems] == ["", ""]


def test_never_may_speak_of_a_pod_that_is_still_to_come() -> None:
    """It holds from its place to the end; of a pod that never comes it could not be wrong."""
    never = "- never: {pod: later, phase: Failed}\n"
    story = read(never + "- pod: {name: later, requests: {nvidia.com/gpu: 1}}\n")
    assert isinstance(story.steps[0].action, Never)
    problem = refused(never + "- pod: {name: latter, requests: {nvidia.com/gpu: 1}}\n")
    assert (problem.path, problem.line) == ("steps[0].never.pod", 7)
    assert problem.message == 'no step makes the pod "default/later"'
    assert problem.suggestion == 'did you mean "default/latter"?'


@pytest.mark.parametrize(
    "text", ["", "nodes: [{name: a}]\nsteps: []\n", "a: 1\n---\nb: 2\n", "- x\n", "steps: [}"]
)
def test_what_is_no_story_is_refused(text: str) -> None:
    """Empty texts, several documents, lists and broken YAML end in a refusal."""
    with pytest.raises(RefusedError):
        language.read(text, "s")
