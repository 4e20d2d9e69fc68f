"""A node of `status` → what is wrong there and what goes on, worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from services.views import silence
from shared.contract.messages import Phase

QUIET = (None, Phase.IDLE.value, Phase.SUCCESS.value)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing to know of a node; `bad` where somebody has to do something."""

    bad: bool
    words: str


def of(node: Mapping[str, Any], now_ns: int) -> tuple[Trouble, ...]:
    """All of a node's."""
    found = (
        *_gpus(node["gpus"]),
        *_services(node["services"], now_ns),
        *_slots(node),
        *_kubelet(node["stale"]),
        *_change(node["mig"]),
        *_config(node["config"]),
    )
    return tuple(sorted(found, key=lambda each: not each.bad))


def rank(found: tuple[Trouble, ...]) -> int:
    """Sort nodes by it: those where something is wrong, those that change, all others."""
    return 2 if not found else 0 if found[0].bad else 1


def _config(config: Mapping[str, Any]) -> Iterator[Trouble]:
    if config["state"] is None:
        yield Trouble(bad=False, words="no config resolved yet")
    elif config["state"] == "refused":
        yield Trouble(bad=True, words=f"config refused: {config['reason']}")


def _gpus(gpus: list[Mapping[str, Any]]) -> Iterator[Trouble]:
    for gpu in gpus:
        if gpu["health"] != "healthy":
            yield Trouble(bad=True, words=f"GPU {gpu['index']} {gpu['health']}: {gpu['reason']}")
        if gpu["mps"] and gpu["mps"]["state"] == "down":
            words = f"GPU {gpu['index']}: MPS daemon down: {gpu['mps']['reason']}"
            yield Trouble(bad=True, words=words)
        for each in gpu["instances"]:
            if each["health"] != "healthy":
                where = f"GPU {gpu['index']} {each['profile']} at {each['start']}"
                yield Trouble(bad=True, words=f"{where} {each['health']}: {each['reason']}")


def _services(services: silence.Services, now_ns: int) -> Iterator[Trouble]:
    unheard = [name for name in silence.NODE_SERVICES if name not in services]
    if unheard:
        yield Trouble(bad=True, words=f"nothing heard from its {', '.join(unheard)}")
    for words in silence.sentences(silence.of(services, now_ns)):
        yield Trouble(bad=True, words=words)


def _slots(node: Mapping[str, Any]) -> Iterator[Trouble]:
    lost = sum(counts["lost"] for counts in node["resources"].values())
    if lost:
        yield Trouble(bad=True, words=f"{lost} held on a device that is gone")


def _kubelet(stale: list[Mapping[str, Any]]) -> Iterator[Trouble]:
    for each in stale:
        words = f"{each['sentence']} ({each['resource']}): {each['hint']}"
        yield Trouble(bad=True, words=words)


def _change(mig: Mapping[str, Any]) -> Iterator[Trouble]:
    if mig["phase"] in QUIET:
        return
    failed = mig["phase"] == Phase.FAILED.value
    said = mig["reason"] if failed else (mig["waits"] or mig["step"])
    sentence = mig["sentence"] if failed or not said else ""
    change = " ".join(part for part in ("MIG", mig["config"], mig["phase"]) if part)
    words = ": ".join(part for part in (change, said) if part)
    yield Trouble(bad=failed, words=": ".join(part for part in (words, sentence) if part))
