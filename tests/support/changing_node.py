"""A node that changes its MIG layout, as a value machine: kubelet, scheduler, allocator, agent.

Each part moves by a method of its own, in any order and as late as the real one. The controller
under test sees the world through `view` and acts through `obey`. What must never happen ends in an
AssertionError: a pod that loses its device, a pod that is rejected because of a hold.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from services.reconfigurer.controller import prepare
from services.reconfigurer.controller.attempt import Attempt, Next, Policy, View
from services.reconfigurer.controller.eviction import Pod
from services.reconfigurer.controller.snapshot import Snapshot
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import (
    DeviceCounts,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    Phase,
    Progress,
    SlotCounts,
)
from shared.domain.sharing import Share, Strategy
from shared.domain.slots import Holder, SlotState, slot_id
from tests.support import hardware
from tests.support.nodes import patched

GPU = "nvidia.com/gpu"
NODE = "gpu-a.example"
US = "slicewire-controller"
DCGM = "nvidia.com/gpu.deploy.dcgm"
KUBELET_PERIOD_S = 10.0
STAYS, GOES, COMES = "MIG-stays", "MIG-goes", "MIG-comes"
REPLICAS = 2
WANTED = dataclasses.replace(
    hardware.intent(generation=Generation(2, 1), node=NODE), mig_config="all-balanced"
)


@dataclass(eq=False)
class Running:
    """A pod on the node. `slot` once the kubelet has admitted it; `seen` once List shows it."""

    pod: Pod
    slot: str = ""
    stubborn: bool = False  # does not end within its grace

    @property
    def holder(self) -> Holder:
        namespace, _, name = self.pod.key.partition("/")
        return Holder(namespace, name, "main")


@dataclass
class World:
    """Everything but the controller. Two MIG devices with two slots each: one has to go."""

    policy: Policy
    node: Snapshot
    admins: bool = False  # whether the node was cordoned by an administrator
    intent: Intent = WANTED
    progress: Progress | None = None
    devices: tuple[str, ...] = (STAYS, GOES)
    withheld: frozenset[str] = frozenset()
    held_order: int = 0
    pods: list[Running] = field(default_factory=list)
    now: float = 0.0
    ticked: float = 0.0
    heard: float = 0.0
    made: int = 0
    order: int = 0
    gone: bool = False  # the agent's process is down
    scheduler_sees: Snapshot | None = None
    scheduler_looked: float = 0.0
    writes: int = 0
    names: list[str] = field(default_factory=list)  # of pods that have gone

    # ------------------------------------------------------------------ kubelet and scheduler

    def slots(self) -> list[str]:
        return [slot_id(device, k) for device in self.devices for k in range(REPLICAS)]

    def taken(self) -> dict[str, Running]:
        return {each.slot: each for each in self.pods if each.slot}

    def listed(self) -> list[str]:
        """What the kubelet calls healthy."""
        return [slot for slot in self.slots() if slot not in self.withheld]

    def tick(self) -> None:
        """The kubelet reports."""
        self.node = dataclasses.replace(self.node, allocatable={GPU: len(self.listed())})
        self.ticked = self.now

    def look(self) -> None:
        """The scheduler hears of the node."""
        self.scheduler_sees, self.scheduler_looked = self.node, self.now

    def can_bind(self) -> bool:
        seen = self.scheduler_sees
        bound = sum(not each.pod.over for each in self.pods)
        return seen is not None and not seen.unschedulable and bound < seen.allocatable[GPU]

    def bind(
        self, *, owner: str = "ReplicaSet", stubborn: bool = False, again: bool = False
    ) -> None:
        """A pod comes, `again` under the name of one that has gone, as a StatefulSet's does."""
        self.made += 1
        key = self.names.pop() if again and self.names else f"default/p{self.made}"
        pod = Pod(
            key=key,
            uid=f"u{self.made}",
            node=NODE,
            phase="Pending",
            admitted=False,
            owner=owner,
            resources=frozenset({GPU}),
        )
        self.pods.append(Running(pod, stubborn=stubborn))

    def admit(self, running: Running, which: int = 0) -> None:
        """The kubelet admits a pod, with Allocate, or rejects it; who has ended makes room."""
        taken = self.taken()
        free = [slot for slot in self.listed() if slot not in taken or taken[slot].pod.over]
        assert free, f"{running.pod.key} was rejected: {self.withheld or 'nothing'} is withheld"
        running.slot = free[which % len(free)]
        if running.slot in taken:
            taken[running.slot].slot = ""
        running.pod = dataclasses.replace(running.pod, phase="Running", admitted=True)

    def end(self, running: Running) -> None:
        """A pod's containers end and its object goes."""
        self.pods.remove(running)
        self.names.append(running.pod.key)

    def finish(self, running: Running) -> None:
        """A pod's containers end, its object stays: an old kubelet goes on listing its slot."""
        running.pod = dataclasses.replace(running.pod, phase="Succeeded")

    def wait(self, seconds: float) -> None:
        """Time passes; who is late is so within bounds."""
        self.now += seconds
        if self.now - self.scheduler_looked >= prepare.SETTLE_S / 2:
            self.look()
        if self.now - self.ticked >= KUBELET_PERIOD_S:
            self.tick()

    # ------------------------------------------------------------------ allocator and agent

    def going(self) -> tuple[str, ...]:
        return tuple(slot_id(GOES, k) for k in range(REPLICAS)) if GOES in self.devices else ()

    def blockers(self) -> tuple[Holder, ...]:
        taken = self.taken()
        return tuple(taken[slot].holder for slot in self.going() if slot in taken)

    def say(self, phase: Phase, reason: str = "") -> None:
        busy = phase in {Phase.PREPARE, Phase.HOLDING, Phase.APPLYING}
        self.progress = Progress(
            stamp=hardware.stamp(self.intent.stamp.generation, NODE),
            phase=phase,
            sentence=phase,
            reason=reason,
            order=self.order,
            slots=self.going() if busy else (),
            blockers=self.blockers() if busy else (),
            components=(DCGM,) if busy else (),
        )
        self.heard = self.now

    def agent(self, *, fails: bool = False) -> None:
        """The agent takes one step from what is said and what is there."""
        if self.gone:
            return
        said = self.progress.phase if self.progress else None
        if said is Phase.APPLYING:
            self._apply(fails=fails)
        elif not self.intent.mig_config:
            self._rest(Phase.IDLE)
        elif GOES not in self.devices:
            self._rest(Phase.SUCCESS)
        elif said not in {Phase.PREPARE, Phase.HOLDING} or not self.view().newest:
            self._begin_again()
        elif said is Phase.PREPARE:
            if self.view().prepared:
                self.say(Phase.HOLDING)
        elif not self.view().prepared:
            self._begin_again()
        else:
            waits = [who for who in self.blockers() if who.pod_key not in self.intent.ended]
            idle = self.held_order == self.order and not waits
            self.say(Phase.APPLYING if idle else Phase.HOLDING)

    def _rest(self, phase: Phase) -> None:
        if self.progress is None or self.progress.phase is not phase or not self.view().newest:
            self.say(phase)

    def _begin_again(self) -> None:
        self.release()
        self.order += 1
        self.say(Phase.PREPARE)

    def _apply(self, *, fails: bool) -> None:
        if fails:
            self.release()
            self.say(Phase.FAILED, "InUse")
            return
        taken = self.taken().items()
        victims = [
            each.pod.key for slot, each in taken if slot in self.going() and not each.pod.over
        ]
        assert not victims, f"{victims} lost their device"
        self.devices = (STAYS, COMES)
        self.release()
        self.say(Phase.SUCCESS)

    def acknowledge(self) -> None:
        """The allocator takes up the hold: no slot of it is handed out any more."""
        if self.progress and self.progress.phase is Phase.HOLDING:
            self.withheld, self.held_order = frozenset(self.going()), self.order

    def release(self) -> None:
        """The hold has ended, and the allocator has taken that up."""
        self.withheld, self.held_order = frozenset(), 0

    def wish_again(self) -> None:
        """Another generation wants the same; nobody has prepared for it."""
        stamp = self.intent.stamp
        newer = dataclasses.replace(stamp, generation=stamp.generation.next())
        self.intent = dataclasses.replace(
            self.intent, stamp=newer, prepared_for=None, prepared_order=0, ended=()
        )

    def restart_agent(self) -> None:
        """It says again what it has said; its journal keeps all."""
        if self.progress:
            self.say(self.progress.phase, self.progress.reason)

    # ------------------------------------------------------------------ the controller's side

    def ledger(self) -> Ledger:
        taken = self.taken()
        rows = tuple(
            LedgerRow(
                slot=slot,
                resource=GPU,
                gpu_uuid="GPU-0",
                state=SlotState.HELD,
                holder=running.holder,
            )
            for slot, running in sorted(taken.items())
        )
        idle = [slot for slot in self.slots() if slot not in taken]
        counts = SlotCounts(
            free=sum(slot not in self.withheld for slot in idle),
            unhealthy=sum(slot in self.withheld for slot in idle),
            held=len(taken),
        )
        return Ledger(
            stamp=hardware.stamp(node=NODE),
            rows=rows,
            counts=(DeviceCounts(gpu_uuid="GPU-0", resource=GPU, counts=counts),),
            held_for=self.intent.stamp.generation if self.held_order else None,
            held_order=self.held_order,
        )

    def inventory(self) -> Inventory:
        shares = tuple(
            Share(
                uuid=device,
                gpu_uuid="GPU-0",
                gpu_index=0,
                resource=GPU,
                replicas=REPLICAS,
                strategy=Strategy.TIME_SLICING,
            )
            for device in self.devices
        )
        return Inventory(
            stamp=hardware.stamp(self.intent.stamp.generation, NODE),
            driver_version="",
            cuda_version=(13, 0),
            gpus=(),
            shares=shares,
        )

    def view(self) -> View:
        return View(
            wanted=self.intent,
            progress=self.progress,
            node=self.node,
            policy=self.policy,
            now=self.now,
            manager=US,
            silent_s=self.now - self.heard,
            ledger=self.ledger(),
            inventory=self.inventory(),
            pods=tuple(each.pod for each in self.pods),
        )

    def obey(self, step: Next, seen: View, *, acts: int = 9) -> None:
        """Do the first `acts` things of a step: a controller may die between any two of them."""
        if step.patch and acts > 0:
            if seen.node != self.node:
                return  # 409: it will look again
            self.node = patched(self.node, step.patch)
            self.writes += 1
        if step.prepared is not None and acts > 1 and self.intent is seen.wanted:
            order = seen.progress.order if seen.progress else 0
            self.intent = dataclasses.replace(
                self.intent,
                prepared_for=self.intent.stamp.generation if step.prepared else None,
                prepared_order=order if step.prepared else 0,
                ended=(),
            )
        if step.ended is not None and acts > 1 and self.intent is seen.wanted:
            self.intent = dataclasses.replace(self.intent, ended=step.ended)
        for pod in step.evict[: max(0, acts - 2)]:
            self.evict(pod)

    def evict(self, pod: Pod) -> None:
        for running in self.pods:
            if running.pod.uid == pod.uid:
                assert not running.pod.ending, f"{pod.key} was evicted twice"
                assert running.slot in self.going(), f"{pod.key} holds nothing that has to go"
                running.pod = dataclasses.replace(running.pod, ending=True)

    @property
    def clean(self) -> bool:
        """Whether nothing of ours is left."""
        marks = names.CORDON_ANNOTATION, names.PAUSED_ANNOTATION, names.EVICTED_ANNOTATION
        return (
            not any(mark in self.node.annotations for mark in marks)
            and self.node.labels == {DCGM: "true"}
            and self.node.unschedulable == self.admins
        )


def world(policy: Policy, *, cordoned: bool = False, pods: tuple[int, ...] = (2, 2)) -> World:
    """A node at rest; `pods` say which of the free slots each of its pods has got."""
    node = Snapshot(name=NODE, version="1", unschedulable=cordoned, labels={DCGM: "true"})
    made = World(policy=policy, node=node, admins=cordoned)
    made.tick()
    made.look()
    for which in pods:
        made.bind()
        made.admit(made.pods[-1], which)
    return made


def go_on(made: World, attempt: Attempt) -> Attempt:
    """Let controller, agent and allocator do the next thing each."""
    seen = made.view()
    step = prepare.decide(seen, attempt)
    made.obey(step, seen)
    made.agent()
    made.acknowledge()
    return step.attempt


def settle(made: World, attempt: Attempt, *, rounds: int = 400) -> Attempt:
    """Let every part work, fairly and without more faults, until nothing is left to do."""
    for _ in range(rounds):
        attempt = go_on(made, attempt)
        for running in list(made.pods):
            if running.pod.ending:
                made.end(running)
            elif not running.pod.admitted:
                made.admit(running)
        made.wait(1.0)
        if made.clean and made.progress and made.progress.phase is Phase.SUCCESS:
            break
    return attempt
