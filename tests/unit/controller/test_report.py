"""Labels and Events that follow from what nodes say."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from services.reconfigurer.controller import conditions, fleet, nodes, report, saying, texts
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import Inventory
from shared.contract.spans import SpanRecord
from shared.domain.gpu import Gpu, Health, HealthState
from shared.domain.sharing import SharingConfig
from shared.sharing import labels, shares
from shared.telemetry import spans
from tests.support import hardware

NODE = "gpu-a"
NEWEST = Generation(2, 5)
GPUS = (hardware.gpu(0), hardware.gpu(1))
SHARED = hardware.time_sliced(4)
SICK = Health(state=HealthState.SICK, reason="XID 79: reboot", xid=79, since_ns=3)


@dataclass
class Stage:
    """A report about one node and what came out of it."""

    view: fleet.Fleet
    reporting: report.Report
    says: list[saying.Say]
    spans: list[SpanRecord]
    wanted: list[nodes.Wanted] = field(default_factory=list)

    def labels(self) -> dict[str, str]:
        """What the last wish makes of an unlabelled node."""
        return {name: text for name, text in self.wanted[-1].labels.items() if text is not None}


def stage(sharing: SharingConfig = SHARED, node: nodes.Node | None = None) -> Stage:
    """A node whose newest intent has generation 2.5."""
    view = fleet.Fleet(
        config_label=names.CONFIG_LABEL,
        intents={NODE: hardware.intent(sharing, NEWEST, NODE)},
        config_map=texts.ConfigMap(name="sharing"),
    )
    view.nodes[NODE] = node or nodes.Node(name=NODE)
    says: list[saying.Say] = []
    told: list[SpanRecord] = []
    telemetry = spans.Telemetry("controller", "")
    telemetry.sink = told.append
    wanted: list[nodes.Wanted] = []
    reporting = report.Report(view, says.append, lambda _, wish: wanted.append(wish), telemetry)
    return Stage(view, reporting, says, told, wanted)


def inventory(
    generation: Generation = NEWEST,
    gpus: tuple[Gpu, ...] = GPUS,
    sharing: SharingConfig = SHARED,
) -> Inventory:
    """What the advertiser answers."""
    return Inventory(
        stamp=hardware.stamp(generation, NODE),
        driver_version="580.95.05",
        cuda_version=(13, 0),
        gpus=gpus,
        shares=shares.shares(gpus, sharing).shares,
    )


def test_labels_and_their_generation_are_one_wish() -> None:
    """Written in one patch, so nobody sees the one without the other."""
    on = stage()
    on.reporting.inventory_seen(NODE, inventory(), "")
    (wish,) = on.wanted
    assert on.labels()[names.REPLICAS_LABEL] == "4"
    assert on.labels()[names.PRODUCT_LABEL].endswith("-SHARED")
    assert wish.annotations == {names.LABELS_GENERATION_ANNOTATION: str(NEWEST)}


def test_the_versions_of_driver_and_cuda_are_labels_too() -> None:
    """Pods that select nodes by them find these nodes as they did by GPU Feature Discovery."""
    on = stage()
    on.reporting.inventory_seen(NODE, inventory(), "")
    assert on.labels()["nvidia.com/cuda.driver-version.full"] == "580.95.05"
    assert on.labels()["nvidia.com/cuda.runtime-version.full"] == "13.0"


def test_an_inventory_that_answers_an_older_intent_labels_nothing() -> None:
    """Its labels would speak of slots that are about to change."""
    on = stage()
    on.reporting.inventory_seen(NODE, inventory(Generation(2, 4)), "")
    assert not any(wish.labels for wish in on.wanted)


def test_a_node_that_is_labelled_already_is_left_alone() -> None:
    """A restarted controller writes nothing that stands."""
    first = stage()
    first.reporting.inventory_seen(NODE, inventory(), "")
    as_wished = nodes.Node(
        name=NODE,
        labels=first.labels(),
        annotations={
            **{name: text for name, text in first.wanted[0].annotations.items() if text},
            names.CONDITIONS_ANNOTATION: conditions.marks(first.wanted[0].conditions),
        },
    )
    again = stage(node=as_wished)
    again.reporting.inventory_seen(NODE, inventory(), "")
    assert not again.wanted
    assert not again.spans


def test_the_span_ends_when_the_node_has_its_labels() -> None:
    """Not when they were wanted."""
    on = stage()
    on.reporting.inventory_seen(NODE, inventory(), "")
    assert not on.spans
    for done in on.wanted[0].done:
        done()
    assert [span.name for span in on.spans] == ["write labels"]


def test_u083_two_models_are_labelled_by_the_first_with_a_mark() -> None:
    """Deterministic, and visible that there is more to know."""
    on = stage()
    gpus = (
        hardware.gpu(0, model="NVIDIA GeForce RTX 3090"),
        hardware.gpu(1, model="NVIDIA GeForce RTX 4090"),
    )
    on.reporting.inventory_seen(NODE, inventory(gpus=gpus), "")
    assert on.labels()[names.PRODUCT_LABEL] == "NVIDIA-GeForce-RTX-3090-SHARED"
    assert on.labels()[labels.MIXED_MODELS] == "true"


def test_u085_a_cut_gpu_under_strategy_none_is_not_labelled_as_shared() -> None:
    """Sharing of whole GPUs says nothing about it."""
    on = stage()
    on.reporting.inventory_seen(NODE, inventory(gpus=(hardware.mig_gpu(0, 2),)), "")
    found = on.labels()
    assert found[names.COUNT_LABEL] == "1"
    assert found[names.REPLICAS_LABEL] == "0"
    assert found[names.STRATEGY_LABEL] == "none"
    assert not found[names.PRODUCT_LABEL].endswith("-SHARED")


def test_a_label_that_does_not_hold_any_more_is_removed() -> None:
    """The mark of mixed models goes with the second model."""
    on = stage(node=nodes.Node(name=NODE, labels={labels.MIXED_MODELS: "true"}))
    on.reporting.inventory_seen(NODE, inventory(), "")
    assert on.wanted[-1].labels[labels.MIXED_MODELS] is None


def test_labels_of_a_mig_resource_go_with_it() -> None:
    """What a layout before this one had is not left standing."""
    gone = "nvidia.com/mig-3g.40gb.count"
    on = stage(node=nodes.Node(name=NODE, labels={gone: "2", "nvidia.com/mig.config": "x"}))
    on.reporting.inventory_seen(NODE, inventory(), "")
    assert on.wanted[-1].labels[gone] is None
    assert "nvidia.com/mig.config" not in on.wanted[-1].labels


def test_a_sick_gpu_is_told_once_however_often_it_is_published() -> None:
    """And its holders as soon as the ledger names them."""
    on = stage()
    sick = (dataclasses.replace(GPUS[0], health=SICK), GPUS[1])
    on.reporting.inventory_seen(NODE, inventory(gpus=sick), "")
    on.reporting.inventory_seen(NODE, inventory(gpus=sick), "")
    assert [say.reason for say in on.says] == [names.GPU_UNHEALTHY]
    on.reporting.inventory_seen(NODE, inventory(), "")
    assert [say.reason for say in on.says] == [names.GPU_UNHEALTHY, names.GPU_RECOVERED]


def test_a_node_that_appears_after_its_inventory_is_caught_up_with() -> None:
    """The bus may be faster than the watch."""
    on = stage()
    node = on.view.nodes.pop(NODE)
    sick = (dataclasses.replace(GPUS[0], health=SICK), GPUS[1])
    on.reporting.inventory_seen(NODE, inventory(gpus=sick), "")
    assert not on.says
    assert not on.wanted
    on.view.nodes[NODE] = node
    on.reporting.node_touched(NODE)
    assert [say.reason for say in on.says] == [names.GPU_UNHEALTHY]
    assert on.labels()[names.REPLICAS_LABEL] == "4"
