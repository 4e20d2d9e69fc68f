"""Expressions that several panels share."""

from __future__ import annotations

IN_USE = 'state=~"held|granted|retiring"'
OFFERED = 'state!~"lost|retiring"'


def counted(metric: str, window: str = "$__range") -> str:
    """How often something has happened in a window, in whole numbers.

    `increase` misses the first event, since a counter with labels begins to exist at 1, and it
    extrapolates. Most of our counters count rare events, where both is plainly wrong.
    """
    most = f"max_over_time({metric}[{window}])"
    return f"clamp_min({most} - ({metric} offset {window} or 0 * {most}), 0)"


def quantile(of: float, buckets: str, by: str, window: str = "$__range") -> str:
    """A quantile of what a histogram has seen in a window, for each value of the labels `by`.

    `buckets` is the histogram's `_bucket` series.
    """
    return f"histogram_quantile({of}, sum by (le, {by}) ({counted(buckets, window)}))"


def with_index(expr: str, selector: str = "", uuid: str = "uuid") -> str:
    """The expression with each GPU's index and model, as people know it.

    `uuid` is the label by which the expression names GPUs.
    """
    info = f"max by (node, uuid, index, model) (slicewire_gpu_info{selector})"
    if uuid != "uuid":
        info = f'label_replace({info}, "{uuid}", "$1", "uuid", "(.+)")'
    return f"({expr}) * on (node, {uuid}) group_left (index, model) {info}"
