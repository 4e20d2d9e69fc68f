"""A change of MIG geometry from the label to the state, with a node's services scripted."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from services.reconfigurer.controller import kube
from services.reconfigurer.controller.eviction import Answer
from shared.bus import errors, logs
from shared.contract import names
from shared.contract.messages import Drain
from shared.domain.slots import slot_id
from shared.simulation.kube.apiserver import faults, kinds
from shared.telemetry import context
from tests.integration.controller import changing
from tests.integration.controller import whole as parts
from tests.integration.controller.whole import NODE, Whole
from tests.support import logged
from tests.support.changing_node import COMES, DCGM, GOES, GPU, STAYS
from tests.support.eventually import eventually, steadily

LAYOUT = "all-balanced"
WITHIN = 20.0
TEXT = """\
version: v1
mig-configs:
  a100-4x1g-1x3g:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 4, 3g.40gb: 1}}
"""


def drain(whole: Whole, **fields: object) -> None:
    """Run the controllers of this test with other values."""
    whole.settings = whole.settings.model_copy(update=fields)


def drained(whole: Whole) -> Drain:
    """What the newest intent says of making room."""
    newest = whole.newest()
    return newest.drain if newest and newest.drain else Drain()


async def succeeded(node: changing.Node) -> None:
    """Wait for the end of a change, with nothing left behind."""
    await eventually(lambda: node.state == "success", within=WITHIN)
    await eventually(lambda: node.as_found, within=WITHIN)
    assert COMES in node.made.devices


async def test_u069_only_the_pod_whose_slot_goes_is_evicted(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cordoned, evicted, uncordoned; other pods stay, components are back, the state says so."""
    logged.everything(caplog)
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        node.add_pod("a", slot_id(STAYS, 0))
        node.add_pod("b", slot_id(GOES, 0))
        node.add_pod("c")
        whole.start()
        cordons: list[bool] = []

        def look() -> bool:
            cordons.append(node.unschedulable)
            return node.state == "success"

        await changing.label(whole, LAYOUT)
        await eventually(look, within=WITHIN)
        await succeeded(node)
        assert node.evicted == ["b"]
        for part in ("cordoned", "eviction of pod default/b", "no longer cordoned", "is applied"):
            line = logged.lines(caplog, part)[0]
            assert (line.level, line.about["node"]) == ("info", NODE)
            assert line.about["trace"]
        assert sorted(node.pods()) == ["a", "c"]
        assert True in cordons
        assert not node.unschedulable
        (event,) = await eventually(lambda: whole.at.events(names.POD_EVICTED, about="b"))
        assert LAYOUT in event["message"]
        assert await eventually(lambda: whole.at.events(names.MIG_CONFIG_APPLIED, about=NODE))
        assert node.condition(names.MIG_CONFIGURED_CONDITION)["status"] == "True"
        assert whole.at.server.watches == 4


async def test_u071_a_node_that_an_administrator_cordoned_stays_cordoned(
    tmp_path: pathlib.Path,
) -> None:
    """The change runs to success under a cordon that is not ours."""
    async with parts.running(tmp_path) as whole, changing.running(whole, cordoned=True) as node:
        node.add_pod("b", slot_id(GOES, 0))
        whole.start()
        await changing.label(whole, LAYOUT)
        await succeeded(node)
        assert node.unschedulable
        assert names.CORDON_ANNOTATION not in whole.at.node(NODE).get("annotations", {})


async def test_u067_a_drain_that_takes_too_long_fails_and_is_tried_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """DrainTimeout names the pod; labels and cordon come back, the former layout serves on."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        drain(whole, drain_timeout_seconds=3.0)
        node.add_pod("slow", slot_id(GOES, 0))
        node.stays_up.add("slow")
        whole.start()
        await changing.label(whole, LAYOUT)
        (waited,) = await eventually(lambda: drained(whole).pods, within=WITHIN)
        assert waited.pod == "default/slow"
        assert waited.why in {"is being evicted", "is ending, within its grace period"}
        assert drained(whole).until_ns == drained(whole).since_ns + 3 * 10**9
        await eventually(lambda: node.state == "failed", within=WITHIN)
        assert node.reason.startswith("DrainTimeout")
        assert "default/slow" in node.reason
        (line,) = logged.lines(caplog, "given up")
        assert (line.level, line.about["reason"]) == ("warning", "DrainTimeout")
        assert drained(whole).reason == "DrainTimeout"
        assert drained(whole).until_ns > 0
        await eventually(lambda: node.as_found and not node.unschedulable, within=WITHIN)
        assert GOES in node.made.devices
        found = node.condition(names.MIG_CONFIGURED_CONDITION)
        assert (found["status"], found["reason"]) == ("False", "DrainTimeout")
        assert whole.at.events("DrainTimeout", about=NODE)
        node.stays_up.clear()
        await succeeded(node)
        await eventually(lambda: drained(whole) == Drain(), within=WITHIN)
        assert node.evicted == ["slow"]


async def test_u075_a_layout_that_is_not_there_touches_nothing_until_it_appears(
    tmp_path: pathlib.Path,
) -> None:
    """failed(ConfigNotFound) with the nearest name; applied without another label."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        whole.start()
        await changing.label(whole, "a100-4x1g-1x3g")
        await eventually(lambda: node.state == "failed", within=WITHIN)
        assert node.reason.startswith(names.CONFIG_NOT_FOUND)
        assert "all-balanced" in node.reason
        (event,) = await eventually(lambda: whole.at.events(names.CONFIG_NOT_FOUND, about=NODE))
        assert event["type"] == "Warning"
        assert node.made.order == 0 or not node.unschedulable
        await whole.at.config_map(whole.settings.mig_config_map, {"config.yaml": TEXT})
        await whole.wanted(lambda it: bool(it.mig_rows), within=WITHIN)
        await succeeded(node)
        assert not node.evicted


async def test_a_disruption_budget_is_waited_for(tmp_path: pathlib.Path) -> None:
    """429 is no failure; the pod goes once the budget lets it."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        node.add_pod("b", slot_id(GOES, 0))
        budget = {
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "b"}}},
        }
        objects = whole.at.server.objects
        objects.create(kinds.BUDGET, "default", budget)
        asked: list[str] = []

        async def note(call: faults.Call) -> faults.Fault | None:
            if not call.path.endswith("/eviction"):
                return None
            asked.append(call.path)
            return faults.Refuse(429, retry_after=1) if len(asked) == 1 else None

        whole.at.server.fault = note
        whole.start()
        await changing.label(whole, LAYOUT)
        await eventually(lambda: asked, within=WITHIN)
        await steadily(lambda: node.evicted == [], for_=0.5)
        assert node.state == "pending"
        await whole.at.api.call(
            "DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep"
        )
        await succeeded(node)
        assert node.evicted == ["b"]


async def test_u067_a_pod_that_may_not_be_evicted_holds_up_no_other(
    tmp_path: pathlib.Path,
) -> None:
    """Two budgets on one pod are refused for good (500): the others go, and people are told why."""
    why = "could not be evicted: This pod has more than one PodDisruptionBudget"
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        drain(whole, drain_timeout_seconds=6.0)
        for name, slot in (("a", 0), ("b", 1)):
            node.add_pod(name, slot_id(GOES, slot))
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
        for name in ("keep", "keep-too"):
            budget = {"metadata": {"name": name}, "spec": spec}
            whole.at.server.objects.create(kinds.BUDGET, "default", budget)
        whole.start()
        await changing.label(whole, LAYOUT)
        await eventually(lambda: node.evicted == ["b"], within=WITHIN)
        await eventually(
            lambda: [each.why.startswith(why) for each in drained(whole).pods] == [True],
            within=WITHIN,
        )
        await eventually(lambda: node.state == "failed", within=WITHIN)
        assert node.reason.startswith("DrainTimeout")
        assert f"default/a ({why}" in node.reason
        found = node.condition(names.MIG_CONFIGURED_CONDITION)
        assert why in found["message"]
        assert node.evicted == ["b"]


async def test_a_protected_pod_fails_the_change_before_anybody_is_evicted(
    tmp_path: pathlib.Path,
) -> None:
    """`drain.barePods: fail`."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        drain(whole, drain_bare_pods=Answer.FAIL)
        node.add_pod("bare", slot_id(GOES, 0), owner="")
        node.add_pod("b", slot_id(GOES, 1))
        whole.start()
        await changing.label(whole, LAYOUT)
        await eventually(lambda: node.state == "failed", within=WITHIN)
        assert node.reason.startswith("DrainRefused")
        await eventually(lambda: node.as_found and not node.unschedulable, within=WITHIN)
        assert node.evicted == []


async def test_u077_a_failure_of_the_agent_restores_service_and_evicts_none_again(
    tmp_path: pathlib.Path,
) -> None:
    """Its reason is told; the retry finds the pods gone."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        node.add_pod("b", slot_id(GOES, 0))
        node.fails = 1
        states: list[str | None] = []

        def look() -> bool:
            states.append(node.state)
            return node.state == "success"

        whole.start()
        await changing.label(whole, LAYOUT)
        await eventually(look, within=WITHIN)
        await succeeded(node)
        assert node.evicted == ["b"]
        assert await eventually(lambda: whole.at.events("InUse", about=NODE))


async def test_u065_devices_that_the_kubelet_never_reports_are_no_success(
    tmp_path: pathlib.Path,
) -> None:
    """The state stays pending while the old counts stand on the node.

    The pod stays until the kubelet has reported the hold: otherwise it may never do so.
    """
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        node.add_pod("b", slot_id(GOES, 0))
        node.stays_up.add("b")
        whole.start()
        await eventually(lambda: node.object().get("status", {}).get("allocatable"), within=WITHIN)
        await changing.label(whole, LAYOUT)
        await eventually(lambda: node.made.withheld, within=WITHIN)
        await eventually(
            lambda: node.object()["status"]["allocatable"] == {GPU: "2"}, within=WITHIN
        )
        node.reports = False
        node.stays_up.clear()
        await eventually(lambda: COMES in node.made.devices, within=WITHIN)
        await steadily(lambda: node.state == "pending", for_=2.0)
        node.reports = True
        await succeeded(node)


@pytest.mark.parametrize("after", range(1, 8))
async def test_a_controller_that_dies_at_any_write_is_succeeded(
    after: int, tmp_path: pathlib.Path
) -> None:
    """Its successor finds on the node and the bus what was done, and ends the change."""
    async with parts.running(tmp_path, lease_s=1.0) as whole, changing.running(whole) as node:
        node.add_pod("a", slot_id(STAYS, 0))
        node.add_pod("b", slot_id(GOES, 0))
        controllers = [whole.start()]
        writes: list[str] = []

        async def kill(call: faults.Call) -> faults.Fault | None:
            ours = call.path.startswith(f"/api/v1/nodes/{NODE}") and call.method == "PATCH"
            if not ours and not call.path.endswith("/eviction"):
                return None
            writes.append(call.path)
            if len(writes) == after:
                controllers[-1].cancel()
                return faults.DropAnswer()
            return None

        await eventually(whole.newest, within=WITHIN)
        await eventually(
            lambda: names.CONDITIONS_ANNOTATION in whole.at.node(NODE).get("annotations", ())
        )
        await changing.label(whole, LAYOUT)
        whole.at.server.fault = kill
        await eventually(lambda: controllers[0].done() or node.state == "success", within=WITHIN)
        await asyncio.wait(controllers, timeout=0.1)
        whole.start()
        await succeeded(node)
        assert not node.unschedulable
        assert node.evicted == ["b"]


async def test_one_trace_leads_from_the_label_to_the_new_labels(tmp_path: pathlib.Path) -> None:
    """Change config > prepare node, evict pod > write labels; also across a new leader."""
    async with (
        parts.running(tmp_path, lease_s=1.0) as whole,
        changing.running(whole) as node,
        whole.command() as reader,
    ):
        node.add_pod("b", slot_id(GOES, 0))
        node.stays_up.add("b")
        first = whole.start()
        await eventually(whole.newest, within=WITHIN)
        await changing.label(whole, LAYOUT)
        await eventually(lambda: node.evicted, within=WITHIN)
        trace_id = context.trace_id(whole.intents[NODE][-1].traceparent)

        async def spans() -> set[str]:
            try:
                return {span.name for span in await logs.read_spans(reader, trace_id)}
            except errors.BusError:
                return set()

        async def until(name: str) -> set[str]:
            async def found() -> set[str]:
                seen = await spans()
                return seen if name in seen else set()

            return await eventually(found, within=WITHIN)

        await until("evict pod")
        first.cancel()
        await asyncio.wait([first])
        whole.start()
        node.stays_up.clear()
        await succeeded(node)
        found = await until("write labels")
        assert {"change config", "publish intent", "prepare node", "evict pod"} <= found


async def test_a_component_that_somebody_switched_off_meanwhile_stays_off(
    tmp_path: pathlib.Path,
) -> None:
    """U067: only what is still paused by us gets its former value."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        node.add_pod("b", slot_id(GOES, 0))
        node.stays_up.add("b")
        whole.start()
        await changing.label(whole, LAYOUT)
        await eventually(lambda: node.evicted, within=WITHIN)
        assert whole.at.node(NODE)["labels"][DCGM] == names.PAUSED
        await whole.at.patch_node(NODE, labels={DCGM: "false"})
        node.stays_up.clear()
        await eventually(lambda: node.state == "success", within=WITHIN)
        await eventually(
            lambda: names.PAUSED_ANNOTATION not in whole.at.node(NODE)["annotations"],
            within=WITHIN,
        )
        assert whole.at.node(NODE)["labels"][DCGM] == "false"


async def test_an_administrator_who_takes_the_cordon_over_keeps_it(
    tmp_path: pathlib.Path,
) -> None:
    """U071: uncordoned and cordoned again while our mark was there."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        drain(whole, drain_cordon="whole")
        node.add_pod("b", slot_id(GOES, 0))
        node.stays_up.add("b")
        whole.start()
        await changing.label(whole, LAYOUT)
        await eventually(lambda: node.evicted, within=WITHIN)
        await _cordon(whole, None)
        await eventually(
            lambda: names.CORDON_ANNOTATION not in whole.at.node(NODE)["annotations"],
            within=WITHIN,
        )
        await _cordon(whole, True)
        node.stays_up.clear()
        await succeeded(node)
        assert node.unschedulable


async def _cordon(whole: Whole, wanted: bool | None) -> None:
    body = {"spec": {"unschedulable": wanted}}
    path = f"/api/v1/nodes/{NODE}"
    await whole.at.api.call("PATCH", path, body=body, content=kube.MERGE_PATCH)


async def test_the_sharing_text_is_told_as_a_condition(tmp_path: pathlib.Path) -> None:
    """`SlicewireConfigured` is True with what is applied, False with the sentences of a refusal."""
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        await whole.config({"any": parts.text(4)})
        whole.start()
        kind = names.CONFIGURED_CONDITION
        await eventually(lambda: node.condition(kind).get("status") == "True", within=WITHIN)
        before = node.condition(kind)
        assert before["reason"] == names.CONFIG_APPLIED
        await whole.config({"any": parts.BAD})
        await eventually(lambda: node.condition(kind).get("status") == "False", within=WITHIN)
        refused = node.condition(kind)
        assert refused["reason"] == names.CONFIG_REFUSED
        assert "sharing.timeSlicing.resources[0].replica" in refused["message"]
        await whole.config({"any": parts.text(4)})
        await eventually(lambda: node.condition(kind).get("status") == "True", within=WITHIN)
        assert node.condition(kind)["lastTransitionTime"] >= refused["lastTransitionTime"]
