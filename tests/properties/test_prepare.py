"""The controller's part of a change, interleaved with all others at every point.

No pod loses its device, none is rejected because of a hold, none is evicted twice or for nothing,
and whatever happened, cordon and components are as they were once everybody works again.
"""

from __future__ import annotations

import dataclasses

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from services.reconfigurer.controller import cordon, prepare
from services.reconfigurer.controller.attempt import Attempt, Next, Policy, View
from shared.contract.messages import Phase
from tests.support import changing_node

TIMEOUT_S = 30.0
WHICH = st.integers(0, 3)  # of the free slots


class ChangeMachine(RuleBasedStateMachine):
    """`made` is the world, `attempt` what the controller's process remembers."""

    @initialize(
        policy=st.sampled_from([cordon.Policy.BRIEF, cordon.Policy.WHOLE]),
        cordoned=st.booleans(),
        pods=st.lists(WHICH, max_size=3),
    )
    def start(self, policy: cordon.Policy, pods: list[int], *, cordoned: bool) -> None:
        rules = Policy(cordon=policy, timeout_s=TIMEOUT_S)
        self.made = changing_node.world(rules, cordoned=cordoned, pods=tuple(pods))
        self.attempt = Attempt()
        self.decided: tuple[Next, View] | None = None  # looked at, not yet done

    # ------------------------------------------------------------------ the controller

    @rule()
    def looks(self) -> None:
        seen = self.made.view()
        step = prepare.decide(seen, self.attempt)
        self.attempt = step.attempt
        self.decided = step, seen

    @precondition(lambda self: self.decided)
    @rule()
    def acts(self) -> None:
        assert self.decided
        self.made.obey(*self.decided)
        self.decided = None

    @rule(rounds=st.integers(1, 6))
    def all_go_on(self, rounds: int) -> None:
        self.decided = None
        for _ in range(rounds):
            self.attempt = changing_node.go_on(self.made, self.attempt)
            self.made.wait(0.4)

    @rule(acts=st.integers(0, 3))
    def dies_half_way_and_is_succeeded(self, acts: int) -> None:
        if self.decided:
            self.made.obey(*self.decided, acts=acts)
        self.decided, self.attempt = None, Attempt()

    # ------------------------------------------------------------------ the others

    @rule(fails=st.booleans())
    def agent(self, *, fails: bool) -> None:
        self.made.agent(fails=fails)

    @rule()
    def allocator(self) -> None:
        self.made.acknowledge()

    @rule()
    def agent_restarts(self) -> None:
        self.made.restart_agent()

    @precondition(lambda self: self.made.can_bind())
    @rule(most=st.integers(2, 4), stubborn=st.booleans(), again=st.booleans())
    def scheduler_binds(self, most: int, *, stubborn: bool, again: bool) -> None:
        for _ in range(most):
            if self.made.can_bind():
                self.made.bind(stubborn=stubborn, again=again)

    @rule(which=st.lists(WHICH, min_size=4, max_size=4))
    def kubelet_admits(self, which: list[int]) -> None:
        waiting = [each for each in self.made.pods if not each.pod.admitted]
        for running, number in zip(waiting, which, strict=False):
            self.made.admit(running, number)

    @rule(which=WHICH, again=st.booleans())
    def pods_come(self, which: int, *, again: bool) -> None:
        """As many as the scheduler will have, each admitted at once."""
        while self.made.can_bind():
            self.made.bind(again=again)
        self.kubelet_admits([which] * 4)

    @precondition(lambda self: self.made.pods)
    @rule(which=WHICH)
    def pod_ends(self, which: int) -> None:
        running = self.made.pods[which % len(self.made.pods)]
        if not running.stubborn:
            self.made.end(running)

    @precondition(lambda self: any(each.pod.admitted for each in self.made.pods))
    @rule(which=WHICH)
    def pod_finishes(self, which: int) -> None:
        admitted = [each for each in self.made.pods if each.pod.admitted]
        self.made.finish(admitted[which % len(admitted)])

    @rule()
    def a_newer_wish(self) -> None:
        self.made.wish_again()

    @rule()
    def kubelet_reports(self) -> None:
        self.made.tick()

    @rule(seconds=st.sampled_from([0.2, 1.0, 5.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        for running in list(self.made.pods):  # nobody is left bound and unheard of for so long
            if seconds > 1.0 and not running.pod.admitted:
                self.made.admit(running)
        self.made.wait(seconds)

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def an_administrators_cordon_stays(self) -> None:
        if hasattr(self, "made") and self.made.admins:
            assert self.made.node.unschedulable

    def teardown(self) -> None:
        if not hasattr(self, "made"):
            return
        for running in self.made.pods:
            running.stubborn = False
        attempt = dataclasses.replace(self.attempt, retry_at=self.made.now)
        changing_node.settle(self.made, attempt)
        assert self.made.clean, self.made.node
        assert self.made.progress
        assert self.made.progress.phase is Phase.SUCCESS


TestChange = ChangeMachine.TestCase
TestChange.settings = settings(
    max_examples=max(150, settings().max_examples), stateful_step_count=30
)
