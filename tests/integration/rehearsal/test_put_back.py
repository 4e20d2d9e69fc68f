"""What a story does to a cluster that is not its own, and how that stands afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.rehearsal.real.acts import Acts
from services.rehearsal.real.former import Former
from services.rehearsal.real.parts import Parts
from services.rehearsal.real.seen import Seen
from services.rehearsal.stage import StageError
from services.rehearsal.story import Budget, ConfigMap, Container, Cordon, Delete, Label, Pod
from shared.simulation.kube.api_client import ApiClient, ApiRefusedError
from shared.simulation.kube.apiserver import ApiServer

MAPS = "/api/v1/namespaces/slicewire/configmaps"
NODE = "/api/v1/nodes/a"
PODS = "/api/v1/namespaces/default/pods"
P = Pod(name="p", containers=(Container(name="c", requests={"r/x": 1}),))


@pytest.fixture
async def api() -> AsyncIterator[ApiClient]:
    """A cluster with a node, a namespace, and one text that somebody else made."""
    server = ApiServer()
    async with ApiClient(await server.start()) as client:
        for name in ("slicewire", "default"):
            with contextlib.suppress(ApiRefusedError):
                await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        await client.create("/api/v1/nodes", {"metadata": {"name": "a", "labels": {"worn": "1"}}})
        labels = {"app.kubernetes.io/managed-by": "Helm"}
        body = {"metadata": {"name": "sharing", "labels": labels}, "data": {"a": "1", "b": "2"}}
        await client.create(MAPS, body)
        yield client
    await server.stop()


def acts(api: ApiClient, stack: contextlib.AsyncExitStack) -> Acts:
    """What does the steps, until the stack is unwound."""
    return Acts(api, Parts(api, Seen(api), "slicewire"), Former(api, stack), ("a",), "image")


async def read(api: ApiClient, path: str) -> Any:
    """The object at a path, None where there is none."""
    try:
        return await api.get(path)
    except ApiRefusedError:
        return None


async def test_a_text_is_put_back_with_its_keys_and_its_owner(api: ApiClient) -> None:
    """However often it was changed; one that the story brought is gone."""
    async with contextlib.AsyncExitStack() as stack:
        doing = acts(api, stack)
        await doing.act(ConfigMap(name="sharing", data={"c": "3"}))
        assert (await api.get(f"{MAPS}/sharing"))["data"] == {"c": "3"}
        await doing.act(ConfigMap(name="sharing", data=None))
        assert await read(api, f"{MAPS}/sharing") is None
        await doing.act(ConfigMap(name="mig", data={"config.yaml": "x"}))
    stands = await api.get(f"{MAPS}/sharing")
    assert stands["data"] == {"a": "1", "b": "2"}
    assert stands["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
    assert await read(api, f"{MAPS}/mig") is None


async def test_labels_and_cordons_are_put_back(api: ApiClient) -> None:
    """Each as it was before its first change, and no label that the story did not touch."""
    async with contextlib.AsyncExitStack() as stack:
        doing = acts(api, stack)
        await doing.act(Label(node="a", labels={"new": "1", "worn": None}))
        await doing.act(Label(node="a", labels={"new": "2"}))
        await doing.act(Cordon(node="a", unschedulable=True))
        await api.patch(NODE, {"metadata": {"labels": {"others": "1"}}})
        assert (await api.get(NODE))["spec"]["unschedulable"]
    node = await api.get(NODE)
    assert node["metadata"]["labels"] == {"worn": "1", "others": "1"}
    assert not node["spec"].get("unschedulable")


async def test_what_a_story_creates_is_gone(api: ApiClient) -> None:
    """Pods and budgets; one that the story has deleted itself is no trouble."""
    async with contextlib.AsyncExitStack() as stack:
        doing = acts(api, stack)
        await doing.act(P)
        (pod,) = (await api.get(PODS))["items"]
        (term,) = pod["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        assert term["matchFields"][0]["values"] == ["a"]
        await doing.act(Budget(name="b", selector={"app": "p"}, min_available=1))
        await doing.act(Delete(pod="default/p", force=True))
    assert (await api.get(PODS))["items"] == []
    budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b"
    assert await read(api, budget) is None


async def test_what_the_server_refuses_is_the_steps_sentence(api: ApiClient) -> None:
    """In its own words."""
    async with contextlib.AsyncExitStack() as stack:
        doing = acts(api, stack)
        await doing.act(P)
        with pytest.raises(StageError, match=r'the API server refused it: .*"p" already exists'):
            await doing.act(P)
