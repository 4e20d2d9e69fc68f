"""A node for the agent's pure parts: GPUs that take steps or refuse them, pods, and the other
services as far as the agent sees them. Nothing is late unless a test makes it so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from services.reconfigurer.agent import change, cutting, steps
from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent.memory import Memory, Reason, resumed
from services.reconfigurer.agent.sight import GpuSight
from services.reconfigurer.agent.view import (
    Apply,
    Decision,
    Limits,
    Outcome,
    Reboot,
    View,
)
from shared.contract.generation import Generation
from shared.contract.messages import (
    ConfigState,
    Hold,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    MigPolicy,
    Phase,
    Progress,
    Source,
)
from shared.domain import slots
from shared.domain.gpu import HEALTHY, Gpu, Health, HealthState, MigMode
from shared.domain.sharing import UNSHARED, Share, SourceKind
from shared.domain.slots import Holder, SlotState
from shared.geometry.config import Row
from shared.geometry.config import Share as Wish
from shared.nvml.clients import Client
from shared.nvml.port import GpuInstance, GpuProcess
from tests.support import cuts, hardware

MODEL = cuts.SEVEN
BOARD = cuts.board(MODEL)
SECOND = 1_000_000_000


class CrashedError(Exception):
    """The agent's process ended here."""


@dataclass
class SimGpu:
    """One GPU; `fails` says which step is refused next, `sticky` keeps modes pending."""

    index: int
    on: bool = True
    pending: bool = True
    instances: list[GpuInstance] = field(default_factory=list)
    sticky: bool = False
    busy_clients: tuple[Client, ...] = ()
    lost: bool = False
    listed: bool = True  # a process that begins after a GPU was lost does not see it at all
    writes: list[str] = field(default_factory=list)

    @property
    def uuid(self) -> str:
        return f"GPU-{self.index}"

    @property
    def gpu(self) -> Gpu:
        mode = MigMode(current=self.on, pending=self.pending)
        lost = Health(state=HealthState.LOST, reason="it is lost")
        whole = dataclasses.replace(
            hardware.gpu(self.index, self.uuid),
            mig_mode=mode,
            health=lost if self.lost else HEALTHY,
        )
        (like,) = hardware.mig_gpu(self.index, 1).mig_devices
        parts = tuple(
            dataclasses.replace(like, uuid=device, profile=each.profile, start=each.start)
            for each in self.instances
            for device in each.devices
        )
        return dataclasses.replace(whole, mig_devices=parts)


def rows(*wishes: dict[str, int] | None) -> tuple[Row, ...]:
    """Rows for GPU 0, 1, ...; None is MIG off."""
    return tuple(
        Row(
            path=f"rows[{index}]",
            enabled=wish is not None,
            shares=tuple(Wish(profile=name, count=count) for name, count in (wish or {}).items()),
            devices=(index,),
        )
        for index, wish in enumerate(wishes)
    )


class World:
    """GPUs, pods, bus and disk of one node."""

    def __init__(self, gpus: int = 2) -> None:
        self.gpus = [SimGpu(index) for index in range(gpus)]
        self.serial = 0
        self.now_ns = 1000 * SECOND
        self.boot = 1
        self.pods: dict[str, str] = {}  # slot -> pod
        self.finished: dict[str, str] = {}  # the same of pods that have ended and are listed on
        self.processes: dict[str, int] = {}  # device UUID -> pid
        self.memory = Memory(boot_id="boot-1")
        self.intent: Intent | None = None
        self.generation = Generation(1, 0)
        self.hold = Hold(stamp=hardware.stamp())
        self.hold_generation = Generation()
        self.said: Progress | None = None
        self.told: list[Progress] = []
        self.inventory: Inventory | None = None
        self.ledger: Ledger | None = None
        self.allocator_hold = Hold(stamp=hardware.stamp())
        self.allocator_generation = Generation()
        self.policy = MigPolicy()
        self.refuse: Callable[[SimGpu, steps.Step], bool] = lambda _gpu, _step: False
        self.crash: Callable[[str], bool] = lambda _where: False
        self.destroyed: list[tuple[str, GpuInstance]] = []
        self.reboots = 0
        self.limits = Limits()

    # ------------------------------------------------------------------------------ hardware

    def make(self, index: int, profile: str, start: int, *, whole: bool = True) -> GpuInstance:
        """Put an instance there."""
        self.serial += 1
        known = BOARD.profile(profile)
        made = GpuInstance(
            id=self.serial,
            profile=profile,
            start=start,
            size=known.size,
            devices=(f"MIG-{self.serial}",) if whole else (),
            whole=whole,
        )
        self.gpus[index].instances.append(made)
        return made

    def cut(self, index: int, *places: tuple[str, int]) -> list[GpuInstance]:
        """Cut a GPU."""
        return [self.make(index, profile, start) for profile, start in places]

    def seen(self) -> tuple[GpuSight, ...]:
        """What the agent's look shows."""
        return tuple(
            GpuSight(
                gpu=each.gpu,
                board=BOARD,
                instances=tuple(sorted(each.instances, key=lambda one: one.start)),
                processes=self._processes(each),
                trouble="it is lost" if each.lost else "",
            )
            for each in self.gpus
            if each.listed
        )

    def _processes(self, gpu: SimGpu) -> tuple[GpuProcess, ...]:
        of = {device: one.id for one in gpu.instances for device in one.devices}
        return tuple(
            GpuProcess(pid=pid, memory_mib=None, gpu_instance=of.get(device))
            for device, pid in self.processes.items()
            if device in of or device == gpu.uuid
        )

    # ------------------------------------------------------------------------ other services

    def want(self, name: str = "wanted", *wishes: dict[str, int] | None) -> None:
        """A new generation; without rows the name is a built-in one, or none."""
        self.generation = self.generation.next()
        self.intent = Intent(
            stamp=hardware.stamp(self.generation),
            sharing=UNSHARED,
            source=Source(kind=SourceKind.NONE),
            state=ConfigState.UNSHARED,
            mig_config=name,
            mig_rows=rows(*wishes),
            mig_policy=self.policy,
        )

    def want_again(self) -> None:
        """A new generation of the same layout, under the policy of now."""
        former = self.intent
        self.want()
        if former is not None and self.intent is not None:
            self.intent = dataclasses.replace(
                self.intent, mig_config=former.mig_config, mig_rows=former.mig_rows
            )

    def prepare(self) -> None:
        """The controller meets what the newest progress demands."""
        if self.intent and self.said and self.said.phase is Phase.PREPARE:
            self.intent = dataclasses.replace(
                self.intent,
                prepared_for=self.generation,
                prepared_order=self.said.order,
                ended=(),
            )

    def withdraw(self) -> None:
        """The controller gives an attempt up."""
        if self.intent:
            self.intent = dataclasses.replace(self.intent, prepared_for=None, prepared_order=0)

    def evict(self) -> None:
        """The controller evicts those that are in the way, and says which of them have ended."""
        if self.said and self.intent and self.said.phase is Phase.HOLDING:
            gone = {holder.pod for holder in self.said.blockers}
            ended = sorted(gone & set(self.finished.values()))
            told = tuple(f"team/{name}" for name in ended)
            self.intent = dataclasses.replace(self.intent, ended=told)
            self.pods = {slot: pod for slot, pod in self.pods.items() if pod not in gone}

    def advertise(self) -> None:
        """The advertiser looks, and lets NVML go where it is asked to."""
        hold = self.hold
        paused = hold.recut and hold.release_nvml
        self.inventory = Inventory(
            stamp=hardware.stamp(self.generation),
            driver_version="580",
            cuda_version=(13, 0),
            gpus=tuple(each.gpu for each in self.gpus),
            shares=tuple(self._shares()),
            paused_for=self.hold_generation if paused else None,
            paused_order=hold.order if paused else 0,
        )

    def _shares(self) -> list[Share]:
        found = []
        for gpu in self.gpus:
            parts = [(d, "nvidia.com/mig") for one in gpu.instances for d in one.devices]
            for uuid, name in parts if gpu.on else [(gpu.uuid, "nvidia.com/gpu")]:
                found.append(
                    Share(
                        uuid=uuid,
                        gpu_uuid=gpu.uuid,
                        gpu_index=gpu.index,
                        resource=name,
                        replicas=1,
                    )
                )
        return found

    def allocate_hold(self) -> None:
        """The allocator takes in the hold and writes its ledger."""
        self.allocator_hold, self.allocator_generation = self.hold, self.hold_generation
        ended = self.hold.ended
        left = {slot: pod for slot, pod in self.finished.items() if f"team/{pod}" not in ended}
        self.finished = left
        self.account()

    def account(self) -> None:
        """The allocator writes its ledger."""
        of = {share.uuid: share.gpu_uuid for share in self._shares()}
        hold = self.allocator_hold
        self.ledger = Ledger(
            stamp=hardware.stamp(),
            rows=tuple(
                LedgerRow(
                    slot=slot,
                    resource="nvidia.com/x",
                    gpu_uuid=of.get(slots.device_of(slot), "?"),
                    state=SlotState.HELD,
                    holder=Holder("team", pod, "main"),
                )
                for slot, pod in sorted({**self.finished, **self.pods}.items())
            ),
            counts=(),
            held_for=self.allocator_generation if hold.recut else None,
            held_order=hold.order if hold.recut else 0,
        )

    def free(self) -> list[str]:
        """Slots that the allocator would hand out now, by the inventory that it has."""
        hold = self.allocator_hold
        return [
            share.uuid
            for share in (self.inventory.shares if self.inventory else ())
            if share.uuid not in self.pods
            and share.uuid not in self.finished
            and not (share.gpu_uuid in hold.recut and share.uuid not in hold.kept)
        ]

    def grant(self, slot: str, pod: str) -> None:
        """A pod gets a slot; the ledger does not say so yet."""
        assert slot in self.free()
        assert slot in {share.uuid for share in self._shares()}, "a pod got what is not there"
        self.pods[slot] = pod

    def finish(self, slot: str) -> None:
        """A pod ends, and an old kubelet goes on listing it."""
        self.finished[slot] = self.pods.pop(slot)
        self.account()

    # --------------------------------------------------------------------------------- agent

    def view(self) -> View:
        """What the agent knows now."""
        there = tuple(client for gpu in self.gpus for client in gpu.busy_clients)
        return View(
            memory=self.memory,
            now_ns=self.now_ns,
            stamp=hardware.stamp(self.generation),
            intent=self.intent,
            inventory=self.inventory,
            ledger=self.ledger,
            seen=self.seen(),
            clients=there,
            limits=self.limits,
        )

    def step(self) -> Decision:
        """One round of the agent: decide, remember, publish, act; or CrashedError on the way."""
        decision = change.decide(self.view())
        self._die("before the memory")
        self.memory = decision.memory
        self._die("before the hold")
        if decision.hold is not None:
            self.hold, self.hold_generation = decision.hold, self.generation
        self._die("before the progress")
        if decision.said is not None and decision.said != self.said:
            self.said = decision.said
            self.told.append(decision.said)
        self._die("before the act")
        if isinstance(decision.act, Apply):
            outcome = self._apply(decision.act)
        elif isinstance(decision.act, Reboot):
            self.reboot()
            raise CrashedError("rebooted")
        else:
            return decision
        self._die("before the outcome")
        self.memory = cutting.after(self.memory, outcome)
        return decision

    def _die(self, where: str) -> None:
        if self.crash(where):
            self.memory = resumed(self.memory, f"boot-{self.boot}")
            raise CrashedError(where)

    def reboot(self) -> None:
        """Boot the node: nothing runs, no instance is left."""
        self.boot += 1
        self.reboots += 1
        self.pods, self.finished, self.processes = {}, {}, {}
        for gpu in self.gpus:
            gpu.instances.clear()
            gpu.on = gpu.pending
        self.memory = resumed(self.memory, f"boot-{self.boot}")
        self.hold = Hold(stamp=hardware.stamp())
        self.inventory = self.ledger = None
        self.allocate_hold()
        self.advertise()

    def _apply(self, act: Apply) -> Outcome:
        gpu = self.gpus[act.plan.index]
        for step in steps.of(act.plan):
            self._die(f"before {step}")
            if gpu.lost or self.refuse(gpu, step):
                return Outcome(uuid=gpu.uuid, reason=Reason.NVML_FAILED, sentence="refused")
            gpu.writes.append(str(step))
            outcome = self._write(gpu, step)
            if outcome is not None:
                return outcome
        self._die("after the last write")
        return Outcome(uuid=gpu.uuid)

    def _write(self, gpu: SimGpu, step: steps.Step) -> Outcome | None:
        if isinstance(step, steps.Destroy):
            assert step.instance in gpu.instances
            assert not set(step.instance.devices) & self.pods.keys(), "a pod lost its device"
            gpu.instances.remove(step.instance)
            self.destroyed.append((gpu.uuid, step.instance))
        elif isinstance(step, steps.Create):
            assert gpu.on
            taken = BOARD.mask(map(sights.place_of, gpu.instances))
            assert not taken & BOARD.mask((step.place,)), "made on top of another"
            self.make(gpu.index, step.place.profile, step.place.start)
        else:
            return self._switch(gpu, step)
        return None

    def _switch(self, gpu: SimGpu, step: steps.Switch) -> Outcome | None:
        gpu.pending = step.on
        if gpu.on == step.on:
            return None
        assert gpu.uuid not in self.pods, "a pod lost its GPU"
        assert not gpu.instances
        if gpu.busy_clients:
            return Outcome(
                uuid=gpu.uuid,
                reason=Reason.IN_USE,
                sentence="in use by another client",
                clients=gpu.busy_clients,
            )
        if gpu.sticky:
            return Outcome(
                uuid=gpu.uuid, reason=Reason.REBOOT_REQUIRED, sentence="the mode stays pending"
            )
        gpu.on = step.on
        return None

    # ------------------------------------------------------------------------------- playing

    def round(self) -> None:
        """Everybody does what is theirs, once."""
        self.advertise()
        self.allocate_hold()
        self.prepare()
        self.evict()
        self.account()
        try:
            self.step()
        except CrashedError:
            self.advertise()
            self.allocate_hold()

    def play(self, rounds: int = 40) -> Progress:
        """Rounds until nothing new is said and nothing done."""
        quiet = 0
        for _ in range(rounds):
            before = (self.said, self.memory, self.layouts())
            self.round()
            quiet = quiet + 1 if before == (self.said, self.memory, self.layouts()) else 0
            if quiet == 3:
                break
        assert self.said is not None
        return self.said

    def layouts(self) -> tuple[object, ...]:
        """What the GPUs are."""
        return tuple(
            (each.on, tuple(sorted((one.profile, one.start) for one in each.instances)))
            for each in self.gpus
        )
