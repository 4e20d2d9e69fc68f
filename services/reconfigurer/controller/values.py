"""Values of the chart → variables of the controller's environment: one table for chart and demo.

A rehearsal's `values:` goes through here, so a story says what an administrator would; the chart's
templates set the same variables. What stands in values.yaml and is missing here is for the chart
alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic
import pydantic_core

from services.reconfigurer.controller.settings import ControllerSettings
from shared.domain.errors import Problem, RefusedError
from shared.runtime import settings
from shared.sharing import suggest

FIELDS = {
    "sharing.configMap.name": "config_map",
    "sharing.label": "config_label",
    "sharing.defaultKey": "default_key",
    "sharing.rules": "selection_rules",
    "sharing.migStrategy": "mig_strategy",
    "sharing.allocationPolicy": "allocation_policy",
    "mig.configMap.name": "mig_config_map",
    "mig.default": "mig_default",
    "mig.maxUnavailable": "mig_max_unavailable",
    "mig.reboot": "mig_reboot",
    "mig.drift": "mig_drift",
    "drain.cordon": "drain_cordon",
    "drain.timeoutSeconds": "drain_timeout_seconds",
    "drain.barePods": "drain_bare_pods",
    "drain.daemonSetPods": "drain_daemon_set_pods",
    "waiting.eventAfterSeconds": "waiting_event_seconds",
    "controller.leaseSeconds": "lease_seconds",
    "logLevel": "log_level",
}
PARTS = ("advertiser", "allocator", "agent", "mps")
CHART_ONLY = (
    "sharing.configMap.create",
    "sharing.configMap.data",
    "mig.configMap.create",
    "mig.configMap.data",
    *(f"image.{name}" for name in ("repository", "tag", "pullPolicy", "pullSecrets")),
    *(f"image.digests.{name}" for name in ("node", "cluster")),
    *(f"controller.{name}" for name in ("replicas", "priorityClassName", "tolerations")),
    *(f"controller.{name}" for name in ("selector", "resources")),
    *(f"pod{name}" for name in ("Labels", "Annotations")),
    *(f"nodes.{name}" for name in ("selector", "gpuLabels", "tolerations", "priorityClassName")),
    *(f"nodes.{name}" for name in ("runtimeClassName", "maxSurge", "kubeletDir")),
    *(f"{part}.{name}" for part in PARTS for name in ("enabled", "resources")),
    *(f"bus.{name}" for name in ("url", "acceptRoleUsers", "usersSecret", "keysSecret")),
    *(f"bus.image.{name}" for name in ("repository", "tag")),
    *(f"bus.persistence.{name}" for name in ("enabled", "size", "storageClass")),
    "mps.sharedMemoryMiB",
    "bus.resources",
    *(f"networkPolicy.{name}" for name in ("enabled", "ports")),
    "metrics.enabled",
    *(f"metrics.podMonitor.{name}" for name in ("enabled", "labels", "interval")),
    "metrics.scrapers",
    *(f"usage.{name}" for name in ("byPod", "periodSeconds")),
    *(f"dashboards.{name}" for name in ("enabled", "namespace", "labels", "annotations")),
    *(f"alerts.{name}" for name in ("enabled", "namespace", "labels", "docs")),
    "telemetry.endpoint",
    *(f"simulation.{name}" for name in ("enabled", "gpus")),
)
KNOWN = (*FIELDS, *CHART_ONLY)


def variables(values: Mapping[str, Any]) -> dict[str, str]:
    """Say the environment of a controller that runs with these values.

    Raises:
        RefusedError: names that no value has, each with the nearest one that there is.
    """
    found = dict(_leaves(values, ""))
    if unknown := _unknowns(found):
        raise RefusedError(unknown)
    return {settings.variable_of(field): text for field, text in _by_field(found).items()}


def read(values: Mapping[str, Any]) -> ControllerSettings:
    """Say the settings of a controller that runs with these values.

    Raises:
        RefusedError: unknown names, and values that the controller would not start with.
    """
    found = dict(_leaves(values, ""))
    problems = _unknowns(found)
    try:
        settled = ControllerSettings.model_validate(_by_field(found))
    except pydantic.ValidationError as error:
        wrong = tuple(_wrong(each) for each in error.errors(include_url=False))
        raise RefusedError(problems + wrong) from None
    if problems:
        raise RefusedError(problems)
    return settled


def _by_field(found: Mapping[str, Any]) -> dict[str, str]:
    """Texts of the controller's settings, as variables hold them."""
    return {
        FIELDS[path]: given if isinstance(given, str) else json.dumps(given)
        for path, given in found.items()
        if path in FIELDS and given != ""  # empty: as if it were not set
    }


def _unknowns(found: Mapping[str, Any]) -> tuple[Problem, ...]:
    return tuple(_unknown(path) for path in found if path not in KNOWN)


def _wrong(error: pydantic_core.ErrorDetails) -> Problem:
    field = str(error["loc"][0])
    path = next(path for path, name in FIELDS.items() if name == field)
    return Problem(path, 0, 0, f"{settings.words_of(error['msg'])}, not {error['input']!r}")


def _unknown(path: str) -> Problem:
    below = [known for known in KNOWN if known.startswith(f"{path}.")]
    if below:
        return Problem(path, 0, 0, f"a map is due here, with {', '.join(below)}")
    return Problem(path, 0, 0, "there is no such value", suggest.did_you_mean(path, KNOWN))


def _leaves(values: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """Paths of all values; a map that a known path names (texts by key) is one value."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and path not in KNOWN:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value
