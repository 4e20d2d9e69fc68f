"""What of a story only an embedded cluster can play, said before anything is done. Pure.

A real cluster's kubelets, API server and processes are not ours to stop, its GPUs not ours to make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from services.rehearsal import vocabulary
from services.rehearsal.story import (
    About,
    Condition,
    Expect,
    Manage,
    Never,
    Node,
    Owner,
    Pod,
    Reboot,
    Service,
    Step,
    Story,
    Verb,
)
from shared.domain.errors import Problem, RefusedError
from shared.simulation.kube.kubelet.switches import Switches

ELSEWHERE = "play it on the embedded cluster, without --kubeconfig"
RESTARTED = (
    *(Service.ADVERTISER, Service.ALLOCATOR, Service.AGENT),
    *(Service.CONTROLLER, Service.BUS),
)
UNSEEN: Mapping[About, tuple[str, ...]] = MappingProxyType(
    {
        About.POD: ("mounts", "cdi"),
        About.BUS: tuple(vocabulary.KEYS[About.BUS]),
        About.API: tuple(vocabulary.KEYS[About.API]),
    }
)


def checked(story: Story) -> Story:
    """The story, if all of it can be played.

    Raises:
        RefusedError: not all of it; the problems say which steps.
    """
    if found := problems(story):
        raise RefusedError(found)
    return story


def problems(story: Story) -> tuple[Problem, ...]:
    """Everything that cannot be played, in the story's order; empty for a story that can."""
    nodes = [
        Problem(f"nodes[{number}].{key}", node.place.line, node.place.column, sentence, ELSEWHERE)
        for number, node in enumerate(story.nodes)
        for key, sentence in _of_node(node)
    ]
    steps = [
        Problem(f"steps[{number}].{step.kind}", step.line, step.column, sentence, ELSEWHERE)
        for number, step in enumerate(story.steps)
        for sentence in _of_step(step)
    ]
    return (*nodes, *steps)


def _of_node(node: Node) -> Iterator[tuple[str, str]]:
    if node.kubelet != Switches() or node.stale_scheduler:
        yield "kubelet", "a real kubelet has no such switches"
    if any(not isinstance(gpu, str) and set(gpu) - {"model"} for gpu in node.gpus):
        yield "gpus", "of a real node's GPUs only the model can be asked for"


def _of_step(step: Step) -> Iterator[str]:
    match step.action:
        case Expect(conditions=conditions) | Never(conditions=conditions):
            yield from _of_conditions(conditions)
        case Manage(verb=verb, service=service):
            if verb is not Verb.RESTART or service not in RESTARTED:
                yield (
                    "a real cluster starts by itself what has ended, and its kubelets and API"
                    " server stay: only restart is played, of advertiser, allocator, agent,"
                    " controller and bus"
                )
        case Reboot():
            yield "a real node is not booted by a rehearsal"
        case Pod(uses=uses, owner=owner):
            if uses is not None:
                yield "`uses` is for simulated processes: a real container takes what it takes"
            if owner is Owner.DAEMON_SET:
                yield "a real DaemonSet puts its pods on all nodes"
        case _:
            pass


def _of_conditions(conditions: tuple[Condition, ...]) -> Iterator[str]:
    for condition in conditions:
        unseen = sorted(condition.keys.intersection(UNSEEN.get(condition.about, ())))
        if unseen:
            yield f"{', '.join(unseen)} of {condition.about.value} cannot be seen from outside"
