"""A node, the sharing ConfigMap and what serves now → what the node shall be, and why. Pure.

`resolver` calls `resolve` on every change and publishes the result where `same` says that it
differs from what is on the bus. A text that cannot be used never takes away what serves: the last
good sharing stands in the node's intent itself, so it outlives the controller.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from services.reconfigurer.controller import layouts, nodes, saying, texts
from shared.contract import names
from shared.contract.messages import ConfigState, Intent, Source
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu
from shared.domain.sharing import SharingConfig, SourceKind, Strategy
from shared.sharing import select

NOWHERE = Source(kind=SourceKind.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a node's intent shall hold, besides its stamp, and what people are to be told."""

    sharing: SharingConfig
    source: Source
    state: ConfigState
    problems: tuple[Problem, ...] = ()
    refused: str = ""
    mig: layouts.Layout = layouts.NONE
    reason: str = ""  # of the Event; empty: nothing to say
    message: str = ""

    def say(self, about: saying.About) -> tuple[saying.Say, ...]:
        """The Events that go with it, if any."""
        refused = self.mig.say(about)
        if not self.reason:
            return refused
        warning = self.state is not ConfigState.APPLIED
        said = saying.Say(about=about, reason=self.reason, message=self.message, warning=warning)
        return (said, *refused)


@dataclass(frozen=True, slots=True)
class _LastGood:
    """What goes on serving where nothing better can be said."""

    sharing: SharingConfig
    source: Source

    @property
    def words(self) -> str:
        if not self.source.key:
            return "there is no last good text: the node serves unshared"
        source = self.source
        return f"the last good text goes on serving ({source.config_map}/{source.key})"


def same(resolution: Resolution, serving: Intent | None) -> bool:
    """Whether the node's intent says this already.

    The ConfigMap's version is left out: an edit of another key, or of a comment, changes nothing
    for this node and must not make a new generation.
    """
    if serving is None:
        return False
    mig = layouts.Layout(
        name=serving.mig_config, rows=serving.mig_rows, problems=serving.mig_problems
    )
    return _content(resolution) == _content(serving) and resolution.mig == mig


def _content(of: Resolution | Intent) -> tuple[object, ...]:
    source = (of.source.kind, of.source.config_map, of.source.key)
    return of.sharing, source, of.state, of.problems, of.refused


def resolve(
    node: nodes.Node,
    gpus: tuple[Gpu, ...],
    config_map: texts.ConfigMap,
    choice: select.Choice,
    serving: Intent | None,
    *,
    mig: layouts.Layout = layouts.NONE,
) -> Resolution:
    """Say what the node shall be.

    Args:
        node: with its labels.
        gpus: as its inventory shows them; empty before the first one.
        config_map: all texts.
        choice: how a key is chosen, from the values.
        serving: the node's newest intent; None if there was never one, or the bus lost it.
        mig: the MIG layout that it is to have.
    """
    data = config_map.data
    chosen = select.select(node.labels, gpus, None if data is None else data.keys(), choice)
    last_good = _last_good(config_map, gpus, serving)
    if chosen.kind is SourceKind.NONE:
        found = _nothing_selected(chosen, config_map, last_good)
    elif not chosen.found:
        found = _key_missing(chosen, config_map, gpus, last_good)
    else:
        found = _text(chosen, config_map, gpus, last_good)
    return dataclasses.replace(found, mig=mig)


def _text(
    chosen: select.Selected,
    config_map: texts.ConfigMap,
    gpus: tuple[Gpu, ...],
    last_good: _LastGood,
) -> Resolution:
    """A key was chosen and is there: its text applies, unless it is wrong."""
    where = f"{config_map.name}/{chosen.key}"
    read = config_map.read((config_map.data or {})[chosen.key], gpus)
    if isinstance(read, SharingConfig):
        notes = "".join(f"; note: {warning.sentence()}" for warning in read.warnings)
        return Resolution(
            sharing=read,
            source=config_map.source(chosen.kind, chosen.key),
            state=ConfigState.APPLIED,
            reason=names.CONFIG_APPLIED,
            message=f"{where} applies, since {chosen.sentence}: {words(read)}{notes}",
        )
    last_good = _newest_good(chosen, config_map, gpus, last_good)
    found = "; ".join(problem.sentence() for problem in read)
    message = f"{where} is refused; {last_good.words}. {found}"
    refused = _refused(last_good, read, names.CONFIG_REFUSED, message)
    return dataclasses.replace(refused, refused=where)


def _key_missing(
    chosen: select.Selected,
    config_map: texts.ConfigMap,
    gpus: tuple[Gpu, ...],
    last_good: _LastGood,
) -> Resolution:
    """Something names a key that is not there: it is applied as soon as it appears."""
    keys = config_map.data or {}
    if not last_good.source.key and select.DEFAULT_KEY in keys:
        read = config_map.read(keys[select.DEFAULT_KEY], gpus)
        if isinstance(read, SharingConfig):
            source = config_map.source(SourceKind.DEFAULT, select.DEFAULT_KEY)
            last_good = _LastGood(read, source)
    hint = f" ({chosen.suggestion})" if chosen.suggestion else ""
    message = f"ConfigMap {config_map.name}: {chosen.sentence}{hint}; {last_good.words}"
    return _refused(last_good, (chosen.problem,), names.CONFIG_NOT_FOUND, message)


def _nothing_selected(
    chosen: select.Selected, config_map: texts.ConfigMap, last_good: _LastGood
) -> Resolution:
    """No key speaks for itself.

    Unshared, but for two cases in which nobody has asked for that: the ConfigMap (or all it held)
    has gone away under a node that it serves, and a second key stands beside what was the only one.
    """
    message = f"ConfigMap {config_map.name}: {chosen.sentence}"
    kept = f"{message}; {last_good.words}"
    if not config_map.data:
        if last_good.source.key:
            return _refused(last_good, (chosen.problem,), names.CONFIG_NOT_FOUND, kept)
        # Most clusters begin so: nothing is wrong, and `status` says what serves.
        return Resolution(sharing=config_map.unshared, source=NOWHERE, state=ConfigState.UNSHARED)
    if last_good.source.kind is SourceKind.ONLY:
        return _refused(last_good, (chosen.problem,), names.CONFIG_NOT_SELECTED, kept)
    return Resolution(
        sharing=config_map.unshared,
        source=NOWHERE,
        state=ConfigState.UNSHARED,
        problems=(chosen.problem,),
        reason=names.CONFIG_NOT_SELECTED,
        message=f"{message}; until then the node serves unshared",
    )


def _refused(
    last_good: _LastGood, problems: tuple[Problem, ...], reason: str, message: str
) -> Resolution:
    return Resolution(
        sharing=last_good.sharing,
        source=last_good.source,
        state=ConfigState.REFUSED,
        problems=problems,
        reason=reason,
        message=message,
    )


def _last_good(
    config_map: texts.ConfigMap, gpus: tuple[Gpu, ...], serving: Intent | None
) -> _LastGood:
    """The text that serves now, unless these GPUs cannot serve it: then it was never good."""
    if serving is None or not serving.source.key or texts.misfits(serving.sharing, gpus):
        return _LastGood(config_map.unshared, NOWHERE)
    return _LastGood(serving.sharing, serving.source)


def _newest_good(
    chosen: select.Selected,
    config_map: texts.ConfigMap,
    gpus: tuple[Gpu, ...],
    last_good: _LastGood,
) -> _LastGood:
    """The key's newest good text, unless the node serves another key's: then that one goes on."""
    version, text = config_map.good.get(chosen.key, ("", ""))
    if not text or last_good.source.key not in ("", chosen.key):
        return last_good
    read = config_map.read(text, gpus)
    if not isinstance(read, SharingConfig) or read == last_good.sharing:
        return last_good
    source = config_map.source(chosen.kind, chosen.key)
    return _LastGood(read, dataclasses.replace(source, resource_version=version))


def words(sharing: SharingConfig) -> str:
    """Say in a few words what a sharing does."""
    if sharing.strategy is Strategy.NONE:
        return "GPUs are not shared"
    each = ", ".join(
        f"{entry.replicas} slots of each {entry.name}"
        + (f" as {entry.rename}" if entry.rename else "")
        for entry in sharing.resources
    )
    return f"{each} by {sharing.strategy}"
