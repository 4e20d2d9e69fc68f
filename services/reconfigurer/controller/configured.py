"""Intent, inventory and outcome → the node conditions that tell them. Pure."""

from __future__ import annotations

from services.reconfigurer.controller import saying
from services.reconfigurer.controller.conditions import Condition, Conditions
from services.reconfigurer.controller.outcome import Outcome, State
from shared.contract import names
from shared.contract.messages import ConfigState, Intent, Inventory
from shared.domain.errors import Problem

_STATUS = {State.SUCCESS: "True", State.FAILED: "False"}


def of(wanted: Intent, inventory: Inventory | None, outcome: Outcome | None) -> Conditions:
    """Say what a node's conditions shall be."""
    sharing = _sharing(wanted, inventory)
    if outcome is None:
        return (sharing,)
    status = _STATUS.get(outcome.state, "Unknown")
    message = saying.shortened(outcome.sentence)
    mig = Condition(names.MIG_CONFIGURED_CONDITION, status, outcome.reason, message)
    return (sharing, mig)


def _sharing(wanted: Intent, inventory: Inventory | None) -> Condition:
    problems, reason = wanted.problems, _reason(wanted)
    if not problems and inventory and inventory.stamp.generation == wanted.stamp.generation:
        problems = inventory.problems
        reason = names.CONFIG_REFUSED if problems else reason
    source = wanted.source
    if problems:
        said = "; ".join(problem.sentence() for problem in problems)
        message = f"{wanted.refused}: {said}" if wanted.refused else said
    elif source.key:
        message = f"{source.config_map}/{source.key} is applied"
    else:
        message = "no sharing text is selected: the GPUs are served unshared"
    status = "False" if problems else "True"
    return Condition(names.CONFIGURED_CONDITION, status, reason, saying.shortened(message))


def _reason(wanted: Intent) -> str:
    if wanted.state is ConfigState.UNSHARED:
        return names.CONFIG_NOT_SELECTED
    if wanted.state is ConfigState.APPLIED:
        return names.CONFIG_APPLIED
    return names.CONFIG_NOT_FOUND if _of_selection(wanted.problems) else names.CONFIG_REFUSED


def _of_selection(problems: tuple[Problem, ...]) -> bool:
    """Whether the refusal is about which key there is, not about what a text says."""
    return any(problem.path == "data" and not problem.line for problem in problems)
