"""Which nodes are buried: those that the cluster has not had for an hour and nobody hears."""

from __future__ import annotations

from services.reconfigurer.controller import absent, fleet, nodes, texts
from services.reconfigurer.controller.outcome import Outcome, State
from shared.bus.state import Received
from shared.contract import table
from shared.contract.generation import Generation
from shared.contract.messages import Ledger, Phase, Progress
from tests.support import hardware, slots

S = 10**9
HOUR = int(table.ABSENT_S)


def over(absence: absent.Absence, at_s: int, *told_of: str, **more: object) -> list[str]:
    """Who is buried at a second, of those that are told of."""
    present = more.get("present", ())
    heard = more.get("heard", {})
    assert isinstance(present, tuple)
    assert isinstance(heard, dict)
    return list(absence.over(told_of, present, heard, at_s * S))


def test_a_node_is_buried_after_an_hour_of_absence() -> None:
    absence = absent.Absence()
    assert over(absence, 100, "gone") == []
    assert over(absence, 100 + HOUR - 1, "gone") == []
    assert over(absence, 100 + HOUR, "gone") == ["gone"]


def test_a_node_that_the_cluster_has_is_never_buried() -> None:
    absence = absent.Absence()
    assert over(absence, 0, "here", present=("here",)) == []
    assert over(absence, 10 * HOUR, "here", present=("here",)) == []


def test_a_node_that_came_back_for_a_moment_is_absent_anew() -> None:
    """An autoscaler may use a name again."""
    absence = absent.Absence()
    over(absence, 0, "flaps")
    over(absence, HOUR - 10, "flaps", present=("flaps",))
    assert over(absence, HOUR + 10, "flaps") == []
    assert over(absence, 2 * HOUR + 10, "flaps") == ["flaps"]


def test_a_node_whose_advertiser_lives_is_not_absent() -> None:
    """Somebody has deleted its Node object, and its pods run on."""
    absence = absent.Absence()
    over(absence, 0, "lives")
    assert over(absence, HOUR + 60, "lives", heard={"lives": HOUR * S}) == []
    assert over(absence, 2 * HOUR, "lives", heard={"lives": HOUR * S}) == ["lives"]


def test_a_node_that_is_told_of_no_more_is_remembered_no_more() -> None:
    """It begins anew if somebody tells of it again."""
    absence = absent.Absence()
    over(absence, 0, "gone")
    over(absence, 60)
    assert over(absence, HOUR + 60, "gone") == []


def test_the_fleet_forgets_all_that_was_told_of_a_node() -> None:
    view = fleet.Fleet(config_label="l", intents={}, config_map=texts.ConfigMap(name="sharing"))
    for name in ("stays", "goes"):
        view.nodes[name] = nodes.Node(name=name)
        view.intents[name] = hardware.intent()
        view.inventories[name] = slots.inventory(hardware.time_sliced(4), hardware.gpu(0))
        view.heard[name] = 1
        view.ledgers[name] = Ledger(stamp=hardware.stamp(), rows=(), counts=())
        progress = Progress(stamp=hardware.stamp(), phase=Phase.IDLE, sentence="")
        view.progress[name] = Received(progress, "", 1)
        view.outcomes[name] = Outcome(
            state=State.SUCCESS, reason="R", sentence="", generation=Generation(1, 1)
        )
    assert view.told_of() == {"stays", "goes"}
    view.forget("goes")
    assert view.told_of() == {"stays"}
    told = (view.intents, view.inventories, view.heard, view.ledgers, view.progress, view.outcomes)
    assert all(set(each) == {"stays"} for each in told)
    assert set(view.nodes) == {"stays", "goes"}
