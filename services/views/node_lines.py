"""One node of `status` → lines: what is wrong, what goes on, its GPUs, who was heard. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from services.views import bars, silence, slices, troubles
from services.views import console as view
from services.views.page import Page, age

SLOT_STATES = ("held", "granted", "retiring", "unhealthy", "free")
GPU, BELOW = 2, 9  # indents of a GPU, and of what stands below its model
MAKER = "NVIDIA "
BAR_WIDTH = {True: 16, False: bars.WIDTH}
PHASE_STYLES = {"success": "green", "failed": "bold red", "idle": "dim", "pending": "yellow"}


def draw(node: Mapping[str, Any], page: Page) -> list[Text]:
    """Everything about a node."""
    lines = page.flow(_heading(node, page), 0, GPU)
    for part in (_config, _change, _gpus, _kubelet, _services):
        lines += part(node, page)
    return lines


def _heading(node: Mapping[str, Any], page: Page) -> Iterator[Text]:
    rank = troubles.rank(troubles.of(node, page.now_ns))
    sign, style = view.verdict(page.signs, rank)
    yield Text(f"{sign} {node['name']}", style=f"bold {style}".strip())
    config = node["config"]
    if config["state"] is None:
        yield Text("no config resolved yet", style="dim")
        return
    named = f"config {config['key']}" if config["key"] else "no config"
    yield Text(f"{named} ({config['source']})", style="dim")
    yield Text(f"generation {config['generation']}", style="dim")
    yield Text(config["state"], style="bold red" if config["state"] == "refused" else "default")


def _config(node: Mapping[str, Any], page: Page) -> list[Text]:
    """Why the config is not what somebody wrote, or what it is where nobody wrote one."""
    config = node["config"]
    if not config["reason"]:
        return []
    style = "red" if config["state"] == "refused" else "dim"
    return page.flow([Text(config["reason"], style=style)], GPU + 2, GPU + 2)


def _change(node: Mapping[str, Any], page: Page) -> list[Text]:
    """Where the wanted MIG layout stands, for whom it waits, how long still."""
    mig = node["mig"]
    if mig["phase"] is None:
        return []
    head = Text(f"MIG layout {mig['config']}: " if mig["config"] else "MIG layout: ")
    head.append(mig["phase"], style=PHASE_STYLES.get(mig["phase"], "yellow"))
    said = ": ".join(part for part in (mig["reason"], mig["sentence"]) if part)
    parts = [head, *_steps(mig), *_times(mig, page), Text(said, style="dim")]
    lines = page.flow([part for part in parts if part], GPU, GPU + 2)
    if mig["waits"] and not any(pod["why"] for pod in mig["pods"]):
        lines += page.flow([Text(f"waits: {mig['waits']}")], GPU + 2, GPU + 4)
    for pod in mig["pods"] or ():
        lines += page.flow(_pod(pod, page), GPU + 2, GPU + 4)
    return lines


def _steps(mig: Mapping[str, Any]) -> Iterator[Text]:
    if mig["steps"]:
        yield Text(f"step {mig['number'] or 0} of {mig['steps']}: {mig['step']}", style="bold")
    elif mig["step"]:
        yield Text(mig["step"], style="bold")


def _times(mig: Mapping[str, Any], page: Page) -> Iterator[Text]:
    since, limit, retry = (page.since(mig[key]) for key in ("since", "limit", "retry"))
    if since is not None:
        yield Text(f"for {age(since)}")
    if limit is not None:
        yield Text(f"given up in {age(-limit)}")
    if retry is not None:
        yield Text(f"tried again in {age(-retry)}" if retry < 0 else "tried again now")


def _pod(pod: Mapping[str, Any], page: Page) -> Iterator[Text]:
    waited = page.since(pod["since"])
    yield Text(f"{page.signs.act} in the way: {pod['pod']}", style="yellow")
    if waited is not None:
        yield Text(f"for {age(waited)}")
    if pod["why"]:
        yield Text(pod["why"], style="dim")


def _gpus(node: Mapping[str, Any], page: Page) -> list[Text]:
    return [line for gpu in node["gpus"] for line in _gpu(gpu, page)]


def _gpu(gpu: Mapping[str, Any], page: Page) -> Iterator[Text]:
    counts = {state: gpu["slots"][state] for state in SLOT_STATES}
    model = f"GPU {gpu['index']}  {gpu['model'].removeprefix(MAKER)}"
    parts = [Text(model), view.bar(counts, page.signs, width=BAR_WIDTH[page.narrow])]
    parts += _used(gpu["used"])
    yield from page.flow([*parts, Text(gpu["uuid"], style="dim")], GPU, BELOW)
    if gpu["health"] != "healthy":
        sick = Text(f"{page.signs.no} {gpu['health']}: {gpu['reason']}", style="bold red")
        yield from page.flow([sick], BELOW, BELOW + 2)
    if gpu["mps"] and gpu["mps"]["state"] != "ready":
        words = f"MPS daemon {gpu['mps']['state']}: {gpu['mps']['reason']}"
        yield from page.flow([Text(f"{page.signs.no} {words}", style="bold red")], BELOW, BELOW + 2)
    yield from _instances(gpu, page)


def _used(used: Mapping[str, Any] | None) -> list[Text]:
    if used is None:
        return []
    parts = [Text(f"memory {percent(used)} used", style="cyan")]
    if used["smPercent"] is not None:
        parts.append(Text(f"SM {used['smPercent']} %", style="cyan"))
    return parts


def percent(used: Mapping[str, Any] | None) -> str:
    """How much of the memory is in use; empty where nobody measured it."""
    if not used or not used["memoryMib"]:
        return ""
    return f"{round(100 * used['usedMib'] / used['memoryMib'])} %"


def _instances(gpu: Mapping[str, Any], page: Page) -> Iterator[Text]:
    """Draw the instances of a GPU in MIG mode over its memory slices, and name the sick ones."""
    if gpu["migPending"]:
        yield Text(f"{' ' * BELOW}MIG {'off' if gpu['mig'] else 'on'} is pending", style="yellow")
    if gpu["mig"] and not gpu["instances"]:
        yield Text(f"{' ' * BELOW}MIG on, no instance", style="dim")
    if gpu["instances"]:
        bar = slices.bar(gpu, page.signs.bar, page.room(BELOW))
        yield Text(" " * BELOW).append_text(bar)
    for each in gpu["instances"]:
        if each["health"] != "healthy":
            what = f"{each['profile']} at {each['start']} {each['health']}: {each['reason']}"
            sick = Text(f"{page.signs.no} {what}", style="bold red")
            yield from page.flow([sick, Text(each["uuid"], style="dim")], BELOW, BELOW + 2)


def _kubelet(node: Mapping[str, Any], page: Page) -> list[Text]:
    """Say what the kubelet refuses though it is free here."""
    lines: list[Text] = []
    for each in node["stale"]:
        said = Text(f"{page.signs.no} {each['sentence']}", style="bold red")
        lines += page.flow([said, Text(each["resource"]), Text(each["hint"])], GPU, GPU + 2)
    return lines


def _services(node: Mapping[str, Any], page: Page) -> list[Text]:
    services = node["services"]
    versions = sorted({each["version"] or "?" for each in services.values()})
    one = len(versions) == 1
    said = [
        f"{name}{'' if one else ' ' + (each['version'] or '?')} {_ago(each['seen'], page)}"
        for name, each in services.items()
    ]
    words = f"spoke last: {', '.join(said) or 'nobody'}" + (f" ({versions[0]})" if one else "")
    return _silent(services, page) + page.flow([Text(words, style="dim")], GPU, GPU + 2)


def _silent(services: silence.Services, page: Page) -> list[Text]:
    """Say that what is drawn is old, where it is."""
    found = silence.of(services, page.now_ns, services)
    if not found:
        return []
    words = f"{', '.join(silence.sentences(found))}: what is shown of it is as old"
    return page.flow([Text(f"{page.signs.no} {words}", style="bold red")], GPU, GPU + 2)


def _ago(stamp: str | None, page: Page) -> str:
    seconds = page.since(stamp)
    return "never" if seconds is None else f"{age(seconds)} ago"
