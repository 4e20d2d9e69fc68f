"""The label `nvidia.com/mig.config` and the ConfigMap of MIG texts → the rows a node wants. Pure.

A name of the text goes before a built-in one. What cannot be used leaves the last good layout
wanted, so the hardware is not touched; it is looked at again whenever label or ConfigMap change.
Whether a layout fits is not asked here: only the agent sees the boards.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from services.reconfigurer.controller import saying
from shared.contract import names
from shared.contract.messages import Intent
from shared.domain.errors import Problem, RefusedError
from shared.geometry import builtin, load
from shared.geometry.config import GeometryConfig, Row
from shared.sharing import suggest

TEXT_KEY = "config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What an intent says of MIG, and what people are to be told if it was refused."""

    name: str = ""
    rows: tuple[Row, ...] = ()
    problems: tuple[Problem, ...] = ()
    message: str = field(default="", compare=False)

    def say(self, about: saying.About) -> tuple[saying.Say, ...]:
        """The Event of a refusal."""
        if not self.problems:
            return ()
        reason = refusal(self.problems)
        return (saying.Say(about=about, reason=reason, message=self.message, warning=True),)


NONE = Layout()


def refusal(problems: tuple[Problem, ...]) -> str:
    """One word for why a layout was refused."""
    by_name = problems[0].path == names.MIG_CONFIG_LABEL
    return names.CONFIG_NOT_FOUND if by_name else names.CONFIG_REFUSED


def wanted(label: str | None, default: str, text: str | None, serving: Intent | None) -> Layout:
    """Say which layout a node is to have.

    Args:
        label: value of its label, None without one.
        default: the name that the values give nodes without a label, empty for none.
        text: the MIG text, None where there is no ConfigMap or no such key in it.
        serving: the node's newest intent.
    """
    name = default if label is None else label
    if not name:
        return NONE
    read = _loaded(text or "")
    if not isinstance(read, GeometryConfig):
        return _refused(name, read, serving)
    if name in read.names:
        return Layout(name=name, rows=read.names[name])
    if builtin.has_form(name):
        return Layout(name=name)
    return _refused(name, (_not_found(name, read, text),), serving)


def _not_found(name: str, read: GeometryConfig, text: str | None) -> Problem:
    known = (*read.names, *builtin.ALWAYS)
    where = "there is no ConfigMap with a MIG text" if text is None else "the MIG text has none"
    listing = f"known are {suggest.listed(known)}, and all-<profile>"
    hint = f"{suggest.did_you_mean(name, known)} {listing}".strip()
    message = f"there is no MIG layout {suggest.shorten(name)}: {where} of this name"
    return Problem(names.MIG_CONFIG_LABEL, 0, 0, message, hint)


def _refused(name: str, problems: tuple[Problem, ...], serving: Intent | None) -> Layout:
    former = serving.mig_config if serving else ""
    rows = serving.mig_rows if serving else ()
    stays = f"{former} stays wanted" if former else "the GPUs stay as they are"
    found = "; ".join(problem.sentence() for problem in problems)
    message = f"MIG layout {suggest.shorten(name)} is refused; {stays}. {found}"
    return Layout(name=former, rows=rows, problems=problems, message=message)


@functools.lru_cache(maxsize=8)
def _loaded(text: str) -> GeometryConfig | tuple[Problem, ...]:
    if not text:
        return GeometryConfig()
    try:
        return load.load(text)
    except RefusedError as refused:
        return refused.problems
