"""The device manager keeps its books, whatever plugins and pods do in whatever order."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shared.simulation.kube.kubelet import checkpoint, device_manager

GPU = "nvidia.com/gpu"
IDS = [f"g{nth}" for nth in range(6)]
GRACE = 300.0
LISTS = st.dictionaries(st.sampled_from(IDS), st.booleans())


class DeviceManagerMachine(RuleBasedStateMachine):
    """A plugin that lists, goes and comes; pods that are admitted, refused and end."""

    @initialize(seed=st.integers(0, 10_000))
    def begin(self, seed: int) -> None:
        """Begin with a plugin that has listed nothing yet."""
        self.chance = random.Random(seed)
        self.manager = device_manager.DeviceManager(order=self.shuffled, grace=GRACE)
        self.now = 0.0
        self.pods: dict[str, tuple[str, ...]] = {}
        self.listed: dict[str, bool] = {}
        self.serving = True
        self.made = 0
        self.manager.connected(GPU)

    def shuffled(self, ids: Iterable[str]) -> list[str]:
        """Put ids in a random row, as the kubelet does."""
        row = sorted(ids)
        self.chance.shuffle(row)
        return row

    @precondition(lambda self: self.serving)
    @rule(devices=LISTS)
    def the_plugin_lists(self, devices: dict[str, bool]) -> None:
        """Take a new list, whole."""
        self.listed = devices
        self.manager.listed(GPU, [device_manager.Device(*one) for one in devices.items()])

    @precondition(lambda self: self.serving)
    @rule()
    def the_plugin_goes(self) -> None:
        """Lose the plugin: what it listed is unhealthy from now on."""
        self.serving = False
        self.listed = dict.fromkeys(self.listed, False)
        self.manager.disconnected(GPU, self.now)

    @precondition(lambda self: not self.serving)
    @rule()
    def a_plugin_comes(self) -> None:
        """Register; nothing is healthy before it lists."""
        self.serving = True
        self.manager.connected(GPU)

    @precondition(lambda self: not self.serving)
    @rule()
    def the_grace_passes(self) -> None:
        """Look at the counts after the grace: the resource is removed."""
        self.now += GRACE + 1
        self.listed = {}
        self.manager.counts(self.now)

    @rule(amount=st.integers(1, 4), proposal=st.lists(st.sampled_from(IDS)), refused=st.booleans())
    def a_pod_is_admitted(self, amount: int, proposal: list[str], refused: bool) -> None:
        """Give a new pod what it asks for exactly if so much is healthy and free."""
        self.made += 1
        place = device_manager.Place(f"pod{self.made}", "main")
        held = {name for ids in self.pods.values() for name in ids}
        free = {name for name, healthy in self.listed.items() if healthy} - held
        try:
            request = self.manager.request(place, GPU, amount)
        except device_manager.RefusedPodError:
            assert len(free) < amount
            return
        assert set(request.available) == free
        ids = self.manager.choose(request, proposal)
        wanted = [name for name in dict.fromkeys(proposal) if name in free][:amount]
        assert set(wanted) <= set(ids) <= free
        assert len(set(ids)) == amount
        if refused:
            self.manager.abandoned(request, ids)
        else:
            self.manager.allocated(request, ids)
            self.pods[place.pod_uid] = ids

    @precondition(lambda self: self.pods)
    @rule()
    def a_pod_ends(self) -> None:
        """Free what one pod held."""
        del self.pods[self.chance.choice(sorted(self.pods))]
        self.manager.keep_only(self.pods.keys())

    @rule()
    def the_kubelet_restarts(self) -> None:
        """Begin anew from the checkpoint: holders known, capacity 0 until the plugin comes."""
        text = checkpoint.encode(self.manager)
        self.manager = device_manager.DeviceManager(order=self.shuffled, grace=GRACE)
        checkpoint.decode(text, self.manager, self.now)
        self.listed = {}
        self.serving = False

    @invariant()
    def no_device_is_held_twice(self) -> None:
        """Holdings are those of the pods, and disjoint."""
        held = [name for ids in self.pods.values() for name in ids]
        assert len(held) == len(set(held))
        for uid, ids in self.pods.items():
            by = self.manager.held_by(device_manager.Place(uid, "main"))
            assert sorted(by[GPU]) == sorted(ids)

    @invariant()
    def counts_add_up(self) -> None:
        """Capacity is what is listed, allocatable the healthy part of it."""
        count = self.manager.counts(self.now).get(GPU, device_manager.Count(0, 0))
        assert count.capacity == len(self.listed)
        assert count.allocatable == sum(self.listed.values())


TestDeviceManager = DeviceManagerMachine.TestCase
