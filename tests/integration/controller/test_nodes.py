"""What nodes answer becomes labels and Events."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib

from shared.bus import errors, logs
from shared.contract import names
from shared.contract.messages import Ledger, LedgerRow
from shared.contract.spans import SpanRecord
from shared.domain.gpu import Health, HealthState
from shared.domain.slots import Holder, SlotState, slot_id
from shared.sharing import select
from shared.simulation.kube.apiserver import faults, kinds
from shared.telemetry import context
from tests.integration.controller import whole as parts
from tests.integration.controller.whole import CONFIG_LABEL, NODE, text
from tests.support import hardware
from tests.support.eventually import eventually

GPUS = (hardware.gpu(0), hardware.gpu(1))
RENAMED = "    renameByDefault: true\n"


async def test_an_inventory_makes_a_node_ours(tmp_path: pathlib.Path) -> None:
    """No label says that the node has GPUs: its advertiser does, and it gets its intent."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE)
        await whole.config({"default": text(4)})
        whole.start()
        async with parts.node_services(whole, NODE, GPUS) as node:
            node.answer()
            await eventually(lambda: whole.replicas() == 4)


async def test_a_new_leader_knows_the_hardware_before_it_decides(tmp_path: pathlib.Path) -> None:
    """A node that a rule by product chose stays as it is when the controller restarts."""
    async with parts.running(tmp_path) as whole:
        rules = (select.Rule(key="big", product="NVIDIA A100*"),)
        whole.settings = whole.settings.model_copy(update={"selection_rules": rules})
        whole.at.add_node(NODE, {"nvidia.com/gpu.present": "true"})
        await whole.config({"big": text(4), "small": text(2)})
        controller = whole.start()
        async with parts.node_services(whole, NODE, GPUS) as node:
            node.answer()
            await eventually(lambda: whole.replicas() == 4)
            before = len(whole.intents[NODE])
            controller.cancel()
            await asyncio.wait([controller])
            whole.start()
            await eventually(lambda: whole.at.server.watches == 4)
            await whole.config({"big": text(6), "small": text(2)})
            await eventually(lambda: whole.replicas() == 6)
            assert len(whole.intents[NODE]) == before + 1


async def test_labels_come_from_the_inventory_that_answers_the_intent(
    tmp_path: pathlib.Path,
) -> None:
    """U079: renamed and in 50 slots; count 2, no suffix, and the generation stands beside."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(50, RENAMED)})
        whole.start()
        async with parts.node_services(whole, NODE, GPUS) as node:
            node.answer()
            await whole.wanted()
            answer = node.answer(whole.intents[NODE][-1])
            generation = str(answer.stamp.generation)
            await eventually(
                lambda: (
                    whole.at.node(NODE)
                    .get("annotations", {})
                    .get(names.LABELS_GENERATION_ANNOTATION)
                    == generation
                )
            )
        labels = whole.at.node(NODE)["labels"]
        assert labels[names.PRODUCT_LABEL] == "NVIDIA-A100-SXM4-80GB"
        assert labels[names.COUNT_LABEL] == "2"
        assert labels[names.REPLICAS_LABEL] == "50"
        assert labels[names.STRATEGY_LABEL] == "time-slicing"
        assert labels[names.MEMORY_LABEL] == "81920"


async def test_one_trace_leads_from_the_edit_to_the_labels(tmp_path: pathlib.Path) -> None:
    """Change config > resolve config and publish intent > ... > write labels, with one trace id."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(4)})
        whole.start()
        async with parts.node_services(whole, NODE, GPUS) as node, whole.command() as reader:
            node.answer()
            await whole.wanted()
            heard = whole.intents[NODE]
            node.answer(heard[-1])
            trace_id = context.trace_id(heard[-1].traceparent)

            async def spans() -> dict[str, SpanRecord]:
                try:
                    found = await logs.read_spans(reader, trace_id)
                except errors.BusError:
                    return {}
                by_name = {span.name: span for span in found}
                return by_name if "write labels" in by_name else {}

            found = await eventually(spans)
        root = found["change config"]
        assert root.parent_id == ""
        assert found["resolve config"].parent_id == root.span_id
        assert found["publish intent"].parent_id == root.span_id
        assert found["write labels"].parent_id == found["publish intent"].span_id


async def test_labels_that_somebody_changes_are_put_back(tmp_path: pathlib.Path) -> None:
    """Labels and slots come from one inventory, also after a hand has been at them."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(4)})
        whole.start()
        async with parts.node_services(whole, NODE, GPUS) as node:
            node.answer()
            await whole.wanted()
            heard = whole.intents[NODE]
            node.answer(heard[-1])
            await eventually(lambda: whole.at.node(NODE)["labels"].get(names.REPLICAS_LABEL) == "4")
            await whole.at.patch_node(NODE, labels={names.REPLICAS_LABEL: "1"})
            await eventually(lambda: whole.at.node(NODE)["labels"].get(names.REPLICAS_LABEL) == "4")


async def test_a_sick_gpu_is_told_on_the_node_and_on_its_holders_once(
    tmp_path: pathlib.Path,
) -> None:
    """XID 79: one Event on the node, one on the pod that holds a slot there, none on others."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        for pod in ("trainer", "other"):
            body = {
                "metadata": {"name": pod},
                "spec": {"containers": [{"name": "main", "image": "x"}]},
            }
            whole.at.server.objects.create(kinds.POD, "default", body)
        await whole.config({"any": text(4)})
        controller = whole.start()
        async with parts.node_services(whole, NODE, GPUS) as node:
            node.answer()
            await whole.wanted()
            heard = whole.intents[NODE]
            node.ledgers.put(_ledger(node, ("GPU-0", "trainer"), ("GPU-1", "other")))
            node.gpus = (dataclasses.replace(GPUS[0], health=_SICK), GPUS[1])
            node.answer(heard[-1])
            (event,) = await eventually(lambda: whole.at.events(names.GPU_UNHEALTHY, about=NODE))
            assert "XID 79" in event["message"]
            (told,) = await eventually(
                lambda: whole.at.events(names.GPU_UNHEALTHY, about="trainer")
            )
            assert told["involvedObject"]["uid"]
            controller.cancel()
            await asyncio.wait([controller])
            said: list[faults.Call] = []

            async def note(call: faults.Call) -> None:
                said.extend([call] if call.path.endswith("/events") else [])

            whole.at.server.fault = note
            whole.start()
            await eventually(lambda: len(said) == 2)
            node.gpus = GPUS
            node.answer(heard[-1])
            await eventually(lambda: whole.at.events(names.GPU_RECOVERED, about=NODE))
        assert not whole.at.events(names.GPU_UNHEALTHY, about="other")
        assert [it["count"] for it in whole.at.events(names.GPU_UNHEALTHY)] == [1, 1]


_SICK = Health(state=HealthState.SICK, reason="XID 79: reboot", xid=79, since_ns=7)


def _ledger(node: parts.NodeHand, *held: tuple[str, str]) -> Ledger:
    rows = tuple(
        LedgerRow(
            slot=slot_id(uuid, 0),
            resource="nvidia.com/gpu",
            gpu_uuid=uuid,
            state=SlotState.HELD,
            holder=Holder("default", pod, "main"),
        )
        for uuid, pod in held
    )
    return Ledger(stamp=node.bus.stamp(node.node), rows=rows, counts=())
