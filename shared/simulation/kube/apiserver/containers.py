"""A container of a pod → what is wrong with its name and the resources that it asks for.

Called by `validation`. The words of a cause are shorter than the real server's; its reason and its
field are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from shared.simulation.kube.apiserver import names
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.refusals import Cause, missing_value, wrong_value

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES = "hugepages-"
_OF_QUOTAS = "requests."  # how a quota names a resource, so none may be called so
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_SMALL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {f"{prefix}i": 1 << 10 * power for power, prefix in enumerate("KMGTPE", 1)}


def causes(group: str, containers: Sequence[Json], taken: set[str]) -> Iterator[Cause]:
    """Return what is wrong with a list of containers; `taken` gets their names."""
    for index, container in enumerate(containers):
        at = f"spec.{group}[{index}]"
        yield from _name(f"{at}.name", container.get("name") or "", taken)
        if not container.get("image"):
            yield missing_value(f"{at}.image")
        yield from _resources(f"{at}.resources", container.get("resources") or {})


def quantity(written: object) -> Decimal | None:
    """Read a number as Kubernetes writes it (`2`, `"1500m"`, `"4Gi"`, `"1e3"`); None if it is none.

    Source: the page on quantities of the API reference, "resource.Quantity".
    """
    found = _QUANTITY.fullmatch(str(written))
    if found is None or isinstance(written, bool):
        return None
    number, exponent, suffix = found.groups(default="")
    if suffix in _BINARY:
        return Decimal(number) * _BINARY[suffix]
    return Decimal(f"{number}{exponent}").scaleb(_SMALL[suffix])


def _name(field: str, name: str, taken: set[str]) -> Iterator[Cause]:
    if not name:
        yield missing_value(field)
    elif why := names.fault_of_label(name):
        yield wrong_value(field, name, why)
    elif name in taken:
        yield Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', field)
    taken.add(name)


def _resources(at: str, resources: Json) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            yield from _amount(f"{at}.{part}[{resource}]", resource, amount)
    for resource in sorted({*limits, *requests}):
        if not _is_extended(resource):  # only these cannot be overcommitted
            continue
        if resource not in limits:
            yield missing_value(f"{at}.limits", f"Limit must be set for {resource}")
        elif quantity(requests.get(resource, limits[resource])) != quantity(limits[resource]):
            why = f"must be equal to {resource} limit of {limits[resource]}"
            yield wrong_value(f"{at}.requests", requests[resource], why)


def _amount(field: str, resource: str, amount: object) -> Iterator[Cause]:
    if not _is_extended(resource):
        if resource not in _STANDARD and not resource.startswith(_HUGE_PAGES):
            yield wrong_value(
                field, resource, "must be a standard resource type or fully qualified"
            )
    elif why := names.fault_of_key(resource):
        yield wrong_value(field, resource, why)
    elif resource.startswith(_OF_QUOTAS):
        yield wrong_value(field, resource, "doesn't follow extended resource name standard")
    number = quantity(amount)
    if number is None:
        yield wrong_value(
            field, amount, "quantities are numbers, with a suffix like m, k, Mi or e3"
        )
    elif number < 0:
        yield wrong_value(field, amount, "must be greater than or equal to 0")
    elif _is_extended(resource) and number != number.to_integral_value():
        yield wrong_value(field, amount, "must be an integer")


def _is_extended(resource: str) -> bool:
    return "/" in resource
