"""Whatever is wanted, refused, killed and late: a change ends well, or says why it did not.

The machine plays controller, allocator, advertiser, pods and a failing driver around the agent's
pure parts, and ends the agent's process between any two of its steps. The world itself asserts
that no pod loses its device; the invariants say the rest.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent import steps
from services.reconfigurer.agent.memory import Reason
from shared.contract.messages import Drift, MigPolicy, Phase
from shared.domain import slots
from shared.geometry.board import Layout
from shared.nvml.clients import Client
from tests.support import cuts
from tests.support.mig_world import SECOND, CrashedError, SimGpu, World

LAYOUTS = [layout for layout in cuts.layouts(cuts.SEVEN) if all("+" not in p for p, _ in layout)]
WISHES: list[dict[str, int] | None] = [
    None,
    {},
    {"1g.10gb": 7},
    {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    {"3g.40gb": 2},
    {"1g.10gb": 1, "3g.40gb": 1},
    {"4g.40gb": 1, "1g.10gb": 3},
    {"3g.40gb": 3},  # does not fit
]
wishes = st.sampled_from(WISHES)
UNTOUCHED = 2  # this GPU is never meant


class Agent(RuleBasedStateMachine):
    """Three GPUs; GPU 2 is in no wish."""

    @initialize(
        first=st.sampled_from(LAYOUTS), second=st.sampled_from(LAYOUTS), whole=st.booleans()
    )
    def some_layouts(self, first: Layout, second: Layout, whole: bool) -> None:
        self.world = World(gpus=3)
        self.world.cut(0, *first)
        if whole:
            self.world.gpus[1].on = self.world.gpus[1].pending = False
        else:
            self.world.cut(1, *second)
        self.world.cut(UNTOUCHED, ("3g.40gb", 0))
        self.pods = 0
        self.pids = 100
        self.world.want("wanted", {"1g.10gb": 2, "3g.40gb": 1}, {"3g.40gb": 2})
        self.world.advertise()
        for slot in self.world.free()[::2]:
            self.world.grant(slot, f"first-{slot}")
        self.everybody(1, evict=False, looks=True)

    # ------------------------------------------------------------------------- what others do

    @rule(
        label=st.sampled_from(["wanted"] * 5 + [""]),
        first=wishes,
        second=wishes,
        reboot=st.booleans(),
        report=st.booleans(),
    )
    def want(
        self,
        label: str,
        first: dict[str, int] | None,
        second: dict[str, int] | None,
        reboot: bool,
        report: bool,
    ) -> None:
        """A new generation, whatever the agent is doing; or the label is gone."""
        drift = Drift.REPORT if report else Drift.REPAIR
        self.world.policy = MigPolicy(reboot=reboot, drift=drift)
        self.world.want(label, first, second)

    @rule()
    def want_the_same(self) -> None:
        """An edit of the sharing text makes a new generation of the same layout."""
        self.world.want_again()

    @rule()
    def controller(self) -> None:
        """It prepares, and evicts."""
        self.world.prepare()
        self.world.evict()

    @rule()
    def withdraw(self) -> None:
        """It gives up."""
        self.world.withdraw()

    @rule()
    def advertiser(self) -> None:
        """It looks."""
        self.world.advertise()

    @rule()
    def allocator(self) -> None:
        """It takes in the hold and tells who has what."""
        self.world.allocate_hold()

    @rule(rounds=st.integers(1, 4), evict=st.booleans(), looks=st.booleans())
    def everybody(self, rounds: int, evict: bool, looks: bool) -> None:
        """All do their work for a while; controller and advertiser may be slow."""
        for _ in range(rounds):
            if looks:
                self.world.advertise()
            self.world.allocate_hold()
            self.world.prepare()
            if evict:
                self.world.evict()
                self.world.account()
            self.round()

    @rule(data=st.data(), told=st.booleans())
    def grant(self, data: st.DataObject, told: bool) -> None:
        """The kubelet gives a pod what the allocator offers; the ledger may be late."""
        free = self.world.free()
        if free:
            self.pods += 1
            self.world.grant(data.draw(st.sampled_from(free)), f"pod-{self.pods}")
            if told:
                self.world.account()

    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        """A pod ends by itself."""
        if self.world.pods:
            del self.world.pods[data.draw(st.sampled_from(sorted(self.world.pods)))]
            self.world.account()

    @rule(data=st.data())
    def finish_pod(self, data: st.DataObject) -> None:
        """A pod ends by itself, and stays where people can read its logs."""
        if self.world.pods:
            self.world.finish(data.draw(st.sampled_from(sorted(self.world.pods))))

    @rule(seconds=st.sampled_from([1, 60, 700, 2000]))
    def later(self, seconds: int) -> None:
        """Time passes."""
        self.world.now_ns += seconds * SECOND

    # ---------------------------------------------------------------------------- the hardware

    @rule(index=st.integers(0, 1), sticky=st.booleans(), used=st.booleans())
    def mode_troubles(self, index: int, sticky: bool, used: bool) -> None:
        """Modes stay pending, or a daemon has the GPU open."""
        self.world.gpus[index].sticky = sticky
        self.world.gpus[index].busy_clients = (Client(7, "dcgm"),) if used else ()

    @rule(index=st.integers(0, 1))
    def loses_or_finds(self, index: int) -> None:
        """A GPU falls off the bus, or is back."""
        self.world.gpus[index].lost = not self.world.gpus[index].lost

    @rule(data=st.data())
    def by_hand(self, data: st.DataObject) -> None:
        """Somebody takes an idle instance away with nvidia-smi."""
        gpu = self.world.gpus[data.draw(st.integers(0, 1))]
        idle = [one for one in gpu.instances if not set(one.devices) & self.world.pods.keys()]
        if idle:
            gpu.instances.remove(data.draw(st.sampled_from(idle)))
            self.world.advertise()  # else a pod could get what that person took away

    @rule()
    def reboot(self) -> None:
        """The node boots."""
        self.world.reboot()
        self.world.reboots = 0

    # ------------------------------------------------------------------------------- the agent

    @rule()
    def agent(self) -> None:
        """It does one round."""
        self.round()

    @rule(at=st.integers(0, 14), refused=st.integers(0, 6))
    def agent_with_troubles(self, at: int, refused: int) -> None:
        """It dies after some of its steps, or its driver refuses one of them."""
        left = {"crash": at, "refuse": refused}

        def crash(_where: str) -> bool:
            left["crash"] -= 1
            return left["crash"] < 0

        def refuse(_gpu: SimGpu, _step: steps.Step) -> bool:
            left["refuse"] -= 1
            return left["refuse"] < 0

        self.world.crash, self.world.refuse = crash, refuse
        self.round()
        self.well()

    def well(self) -> None:
        self.world.crash = lambda _where: False
        self.world.refuse = lambda _gpu, _step: False

    def round(self) -> None:
        known = self.world.memory.change
        kept = frozenset(known.kept) if known and known.begun else frozenset()
        there = {d for gpu in self.world.gpus for one in gpu.instances for d in one.devices}
        try:
            self.world.step()
        except CrashedError as crash:
            if str(crash) == "rebooted":
                return
        left = {d for gpu in self.world.gpus for one in gpu.instances for d in one.devices}
        assert kept & there <= left, "a device that was to stay is gone"

    # ------------------------------------------------------------------------------ invariants

    @invariant()
    def gpus_that_are_not_meant_are_left_alone(self) -> None:
        assert not self.world.gpus[UNTOUCHED].writes
        assert all(uuid != f"GPU-{UNTOUCHED}" for uuid, _ in self.world.destroyed)

    @invariant()
    def what_is_half_cut_is_not_handed_out(self) -> None:
        """Once the allocator knows the newest hold, nothing of a closed GPU is free."""
        closed = {each.uuid: each.kept for each in self.world.memory.closed}
        if self.world.allocator_hold != self.world.hold or not closed:
            return
        if self.world.said is None or self.world.said.phase is not Phase.FAILED:
            return
        if self.world.hold.recut:
            for slot in self.world.free():
                for gpu in self.world.gpus:
                    devices = {d for one in gpu.instances for d in one.devices} | {gpu.uuid}
                    if slots.device_of(slot) in devices:
                        assert gpu.uuid not in closed or slot in closed[gpu.uuid]

    @invariant()
    def no_goal_costs_a_second_boot(self) -> None:
        assert self.world.reboots <= len({*self.world.memory.rebooted}) + 1

    # ----------------------------------------------------------------------------------- the end

    @rule()
    def everything_becomes_well(self) -> None:
        """With nothing in the way any more, the goal is reached, or refused with a reason."""
        for gpu in self.world.gpus:
            gpu.lost = gpu.sticky = False
            gpu.busy_clients = ()
        self.world.processes = {}
        self.world.policy = MigPolicy()
        self.world.want_again()
        said = self.world.play()
        for _ in range(2):
            if said.phase is Phase.FAILED and self.world.memory.failure is not None:
                failure = self.world.memory.failure
                self.world.now_ns += 2000 * SECOND
                if failure.retry_ns is None:  # only a boot or another wish gets it going
                    self.world.reboot()
                said = self.world.play()
        assert self.world.intent is not None
        nothing = not self.world.intent.mig_config
        refused = said.reason == Reason.REFUSED
        assert said.phase is Phase.SUCCESS or nothing or refused, said
        assert not self.world.hold.recut or refused, "a hold is left"
        if said.phase is Phase.SUCCESS:
            wanted = dict(self.world.memory.settled or ())
            for seen in self.world.seen():
                assert seen.uuid not in wanted or sights.is_as(seen, wanted[seen.uuid])


TestAgent = Agent.TestCase
