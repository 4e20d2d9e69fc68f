"""Which key of a ConfigMap `slicewire plan` takes: named, or chosen as the controller would.

The rules come from a file with chart values, read by the table that the chart's own values go
through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import yaml

from services.reconfigurer.controller import settings, values
from shared.domain.errors import RefusedError
from shared.domain.gpu import Gpu
from shared.domain.sharing import SourceKind
from shared.sharing import select, suggest


class ChoiceError(ValueError):
    """Flags or a file of values that choose nothing; the text says what to write."""


def read(text: str) -> settings.ControllerSettings:
    """Read a file with chart values as the controller would; no text is the chart's defaults.

    Raises:
        ChoiceError: it is wrong, with the first mistake.
    """
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        said = suggest.shorten(" ".join(str(error).split()))
        raise ChoiceError(f"the values are not YAML: {said}") from None
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise ChoiceError("the values are a mapping, like sharing: {rules: […]}")
    try:
        return values.read(given)
    except RefusedError as refused:
        raise ChoiceError(f"the values, {refused.problems[0].sentence()}") from None


def labels(words: str) -> dict[str, str]:
    """Read `team=vision,nvidia.com/device-plugin.config=a100`.

    Raises:
        ChoiceError: a label without a value.
    """
    found = {}
    for word in filter(None, words.split(",")):
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise ChoiceError(f"--node-labels {word}: write {name.strip() or '<name>'}=<value>")
        found[name.strip()] = value.strip()
    return found


def choose(
    keys: Collection[str],
    named: str | None,
    node_labels: Mapping[str, str],
    gpus: tuple[Gpu, ...],
    choice: select.Choice,
) -> select.Selected:
    """Choose among the keys; `named` (by --key) comes before everything."""
    if named is None:
        return select.select(node_labels, gpus, keys, choice)
    if named in keys:
        return select.Selected(SourceKind.KEY, named, True, f"--key names the key {named}")
    sentence = f"there is no key {named}, the keys are {suggest.listed(keys)}"
    hint = suggest.did_you_mean(named, keys)
    return select.Selected(SourceKind.KEY, named, False, sentence, hint)
