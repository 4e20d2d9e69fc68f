"""From labels, ConfigMap and what serves to what the node shall be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from services.reconfigurer.controller import intent, layouts, nodes
from services.reconfigurer.controller.texts import ConfigMap
from shared.contract import names
from shared.contract.messages import ConfigState, Intent, Stamp
from shared.domain.gpu import Gpu
from shared.domain.sharing import (
    UNSHARED,
    AllocationPolicy,
    MigStrategy,
    SharingConfig,
    SourceKind,
)
from shared.sharing import select
from tests.support import hardware

LABEL = names.CONFIG_LABEL
CHOICE = select.Choice(label=LABEL)
GPUS = (hardware.gpu(0), hardware.gpu(1))


def text(replicas: int) -> str:
    return (
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        f"    - name: nvidia.com/gpu\n      replicas: {replicas}\n"
    )


BAD = text(4).replace("replicas", "replica")


def resolved(
    data: Mapping[str, str] | None,
    label: str = "",
    serving: Intent | None = None,
    *,
    gpus: tuple[Gpu, ...] = GPUS,
    choice: select.Choice = CHOICE,
    version: str = "1",
) -> intent.Resolution:
    """Resolve one node."""
    node = nodes.Node(name="gpu-a", labels={LABEL: label} if label else {})
    texts = ConfigMap(name="sharing", resource_version=version, data=data)
    return intent.resolve(node, gpus, texts, choice, serving)


def published(found: intent.Resolution) -> Intent:
    """The intent that a resolution becomes."""
    return Intent(
        stamp=Stamp(node="gpu-a", writer="w"),
        sharing=found.sharing,
        source=found.source,
        state=found.state,
        problems=found.problems,
        refused=found.refused,
        mig_config=found.mig.name,
        mig_rows=found.mig.rows,
        mig_problems=found.mig.problems,
    )


def replicas(found: intent.Resolution) -> int | None:
    """How many slots a GPU gets, None where nothing is shared."""
    return found.sharing.resources[0].replicas if found.sharing.resources else None


ANY_8 = published(resolved({"any": text(8)}, "any"))


@pytest.mark.parametrize(
    ("data", "label", "choice", "kind", "key"),
    [
        pytest.param({"a": 2, "default": 4}, "a", CHOICE, SourceKind.LABEL, "a", id="label"),
        pytest.param(
            {"a": 2, "b": 4},
            "",
            select.Choice(label=LABEL, rules=(select.Rule(key="b", product="NVIDIA A100*"),)),
            SourceKind.RULE,
            "b",
            id="rule",
        ),
        pytest.param(
            {"a": 2, "default": 4},
            "",
            select.Choice(label=LABEL, key="a"),
            SourceKind.KEY,
            "a",
            id="values",
        ),
        pytest.param({"a": 2, "default": 4}, "", CHOICE, SourceKind.DEFAULT, "default", id="key"),
        pytest.param({"Tesla-T4": 2}, "", CHOICE, SourceKind.ONLY, "Tesla-T4", id="U017 only key"),
    ],
)
def test_the_first_that_names_a_key_decides(
    data: dict[str, int], label: str, choice: select.Choice, kind: SourceKind, key: str
) -> None:
    """Label, rule, values, default, only key; the source says which it was."""
    texts = {name: text(count) for name, count in data.items()}
    found = resolved(texts, label, choice=choice)
    assert (found.source.kind, found.source.key) == (kind, key)
    assert replicas(found) == data[key]
    assert found.state is ConfigState.APPLIED
    assert found.reason == names.CONFIG_APPLIED


def test_u017_two_keys_and_nothing_that_selects_is_unshared_with_the_keys_listed() -> None:
    """Not a crash and not a random pick."""
    found = resolved({"Tesla-T4": text(4), "A100": text(8)})
    assert found.state is ConfigState.UNSHARED
    assert found.sharing == UNSHARED
    assert found.reason == names.CONFIG_NOT_SELECTED
    assert "A100, Tesla-T4" in found.message
    assert found.problems


def test_u013_a_key_that_is_not_there_keeps_the_last_good_one() -> None:
    """The Event lists the keys and the nearest; nothing else is tried."""
    found = resolved({"default": text(2), "t4": text(4)}, "t40", ANY_8)
    assert found.state is ConfigState.REFUSED
    assert replicas(found) == 8
    assert found.source == ANY_8.source
    assert found.reason == names.CONFIG_NOT_FOUND
    for words in ("t40", "default, t4", 'did you mean "t4"'):
        assert words in found.message


def test_u013_with_no_last_good_one_the_default_key_serves() -> None:
    """Until the key that is named appears."""
    found = resolved({"default": text(2), "t4": text(4)}, "nope")
    assert (found.state, replicas(found)) == (ConfigState.REFUSED, 2)
    assert found.source.kind is SourceKind.DEFAULT
    later = resolved({"default": text(2), "nope": text(6)}, "nope", published(found))
    assert (later.state, replicas(later)) == (ConfigState.APPLIED, 6)


@pytest.mark.parametrize(
    "data",
    [pytest.param(None, id="U015 F09 no ConfigMap"), pytest.param({}, id="F23 no data")],
)
def test_without_any_text_the_source_is_none_and_nothing_is_wrong(
    data: Mapping[str, str] | None,
) -> None:
    """A cluster that shares nothing is not told so on every node."""
    found = resolved(data)
    assert found.state is ConfigState.UNSHARED
    assert found.source.kind is SourceKind.NONE
    assert not found.reason
    assert not found.problems


def test_a_bad_text_keeps_the_last_good_one_and_says_where_it_is_wrong() -> None:
    """Path, line and what to write stand in the Event and in the intent's problems."""
    found = resolved({"any": BAD}, "any", ANY_8)
    assert (found.state, replicas(found)) == (ConfigState.REFUSED, 8)
    assert found.source == ANY_8.source
    assert found.reason == names.CONFIG_REFUSED
    assert found.problems[0].path.startswith("sharing.timeSlicing.resources[0]")
    assert [problem.line for problem in found.problems] == [5, 6]
    assert found.problems[0].path in found.message
    assert (found.refused, ANY_8.refused) == ("sharing/any", "")


def test_a_second_bad_text_still_keeps_the_first_good_one() -> None:
    """The last good one survives any number of bad ones, and a bad label after them."""
    once = published(resolved({"any": BAD}, "any", ANY_8))
    twice = published(resolved({"any": "- a list"}, "any", once))
    found = resolved({"any": "- a list"}, "other", twice)
    assert replicas(found) == 8


def test_a_bad_text_with_no_last_good_one_is_unshared_and_refused() -> None:
    """The bus has lost it too: the node serves whole GPUs, with an Event."""
    found = resolved({"any": BAD}, "any")
    assert (found.state, found.sharing) == (ConfigState.REFUSED, UNSHARED)
    assert "no last good text" in found.message


def edited(*texts: str | None) -> ConfigMap:
    """The ConfigMap after its key `any` has held these texts, the newest last; None: no key."""
    now = ConfigMap(name="sharing")
    for version, each in enumerate(texts, start=1):
        data = {} if each is None else {"any": each}
        now = ConfigMap(name="sharing", resource_version=str(version), data=data).after(now)
    return now


@pytest.mark.parametrize(
    ("texts", "serving", "served", "version"),
    [
        pytest.param((text(4), BAD), ANY_8, 4, "1", id="too fast to have served"),
        pytest.param((text(4), BAD, "- a list"), ANY_8, 4, "1", id="two bad ones after it"),
        pytest.param((text(4), None, BAD), ANY_8, 4, "1", id="gone for a moment"),
        pytest.param((text(15000), BAD), ANY_8, 8, "1", id="these GPUs cannot serve it"),
        pytest.param((text(4), BAD), None, 4, "1", id="nothing served before"),
        pytest.param((BAD,), ANY_8, 8, "1", id="none was seen"),
    ],
)
def test_the_last_good_text_serves_however_soon_a_bad_one_follows(
    texts: tuple[str | None, ...], serving: Intent | None, served: int, version: str
) -> None:
    """Two edits within a moment may be looked at as one."""
    node = nodes.Node(name="gpu-a", labels={LABEL: "any"})
    found = intent.resolve(node, GPUS, edited(*texts), CHOICE, serving)
    assert (found.state, replicas(found)) == (ConfigState.REFUSED, served)
    assert (found.source.key, found.source.resource_version) == ("any", version)


def test_a_key_that_was_good_once_does_not_displace_what_another_key_serves() -> None:
    """The node's label moves to a key whose text is bad now: what serves goes on."""
    node = nodes.Node(name="gpu-a", labels={LABEL: "any"})
    other = published(resolved({"other": text(2)}, "other"))
    found = intent.resolve(node, GPUS, edited(text(4), BAD), CHOICE, other)
    assert (replicas(found), found.source.key) == (2, "other")
    assert found.refused == "sharing/any", "or one would look for the mistake in the other text"
    assert not intent.same(dataclasses.replace(found, refused="sharing/b"), published(found))


def test_what_texts_do_not_say_comes_from_the_values() -> None:
    """MIG strategy and allocation policy of texts that are silent, and of nodes without one."""
    values = SharingConfig(
        mig_strategy=MigStrategy.MIXED, allocation_policy=AllocationPolicy.PACKED
    )
    before = ConfigMap(name="sharing", unshared=values)
    said = text(4) + "flags: {migStrategy: single}\nslicewire: {allocationPolicy: distinct}\n"
    node = nodes.Node(name="gpu-a", labels={LABEL: "any"})
    for each, expected in (
        (None, (MigStrategy.MIXED, AllocationPolicy.PACKED)),
        ("version: v1", (MigStrategy.MIXED, AllocationPolicy.PACKED)),
        (text(4), (MigStrategy.MIXED, AllocationPolicy.PACKED)),
        (said, (MigStrategy.SINGLE, AllocationPolicy.DISTINCT)),
        (BAD, (MigStrategy.MIXED, AllocationPolicy.PACKED)),
    ):
        data = None if each is None else {"any": each}
        now = ConfigMap(name="sharing", data=data).after(before)
        sharing = intent.resolve(node, GPUS, now, CHOICE, None).sharing
        assert (sharing.mig_strategy, sharing.allocation_policy) == expected


def test_a_text_that_these_gpus_cannot_serve_is_refused_like_a_bad_one() -> None:
    """More ids than the kubelet takes: known once there is an inventory."""
    huge = text(15000)
    assert resolved({"any": huge}, "any", gpus=()).state is ConfigState.APPLIED
    found = resolved({"any": huge}, "any", ANY_8)
    assert (found.state, replicas(found)) == (ConfigState.REFUSED, 8)


def test_what_turns_out_not_to_fit_the_gpus_was_never_good() -> None:
    """Published before the inventory came, it is not kept as the last good one."""
    early = published(resolved({"any": text(15000)}, "any", gpus=()))
    found = resolved({"any": text(15000)}, "any", early)
    assert (found.state, found.sharing) == (ConfigState.REFUSED, UNSHARED)


@pytest.mark.parametrize("data", [pytest.param(None, id="deleted"), pytest.param({}, id="emptied")])
def test_a_config_map_that_goes_away_under_a_node_leaves_it_as_it_is(
    data: Mapping[str, str] | None,
) -> None:
    """Re-made by a tool, it is gone for a moment: slots do not follow."""
    only = published(resolved({"any": text(8)}))
    for label, serving in (("any", ANY_8), ("", only)):
        found = resolved(data, label, serving)
        assert (found.state, replicas(found)) == (ConfigState.REFUSED, 8)
        assert found.reason == names.CONFIG_NOT_FOUND


def test_f19_a_second_key_beside_the_only_one_keeps_what_it_served() -> None:
    """Never a random pick: an Event says what to do."""
    only = published(resolved({"config": text(8)}))
    found = resolved({"config": text(8), "second": text(4)}, "", only)
    assert (found.state, replicas(found)) == (ConfigState.REFUSED, 8)
    assert found.reason == names.CONFIG_NOT_SELECTED
    assert "config, second" in found.message


def test_a_label_that_is_removed_takes_its_sharing_with_it() -> None:
    """Nothing selects any more: that is what was asked for."""
    found = resolved({"any": text(8), "b": text(4)}, "", ANY_8)
    assert (found.state, found.sharing) == (ConfigState.UNSHARED, UNSHARED)


def test_edits_that_change_nothing_for_the_node_are_the_same() -> None:
    """Another version of the ConfigMap, a comment, another key."""
    data = {"any": "# note\n" + text(8), "b": text(1)}
    assert intent.same(resolved(data, "any", ANY_8, version="2"), ANY_8)


def test_every_other_difference_counts() -> None:
    """Sharing, source, state, problems, and the wanted MIG layout."""
    assert not intent.same(resolved({"any": text(8)}, "any"), None)
    assert not intent.same(resolved({"any": text(4)}, "any", ANY_8), ANY_8)
    assert not intent.same(resolved({"any": BAD}, "any", ANY_8), ANY_8)
    assert not intent.same(resolved({"b": text(8)}, "b", ANY_8), ANY_8)
    wanted = dataclasses.replace(ANY_8, mig_config="all-1g.10gb")
    assert not intent.same(resolved({"any": text(8)}, "any", wanted), wanted)


def test_a_refused_mig_layout_is_told_besides_the_sharing() -> None:
    """Each with its own Event; a refusal that is known already is the same."""
    refused = layouts.wanted("all-balance", "", None, None)
    found = dataclasses.replace(resolved({"any": text(8)}, "any"), mig=refused)
    reasons = [say.reason for say in found.say(nodes.Node(name="gpu-a").about)]
    assert reasons == [names.CONFIG_APPLIED, names.CONFIG_NOT_FOUND]
    assert intent.same(found, published(found))
    assert not intent.same(found, ANY_8)


def test_warnings_of_an_accepted_text_are_told_with_it() -> None:
    """What the writer should know, although it is accepted."""
    found = resolved({"any": "version: v1\n"}, "any")
    assert found.state is ConfigState.APPLIED
    assert "shares nothing" in found.message


def test_the_event_of_anything_but_success_is_a_warning() -> None:
    """`kubectl get events --field-selector type=Warning` shows all that needs a hand."""
    about = nodes.Node(name="gpu-a").about
    (good,) = resolved({"any": text(8)}, "any").say(about)
    (bad,) = resolved({"any": BAD}, "any").say(about)
    (unselected,) = resolved({"a": text(8), "b": text(8)}).say(about)
    assert [say.warning for say in (good, bad, unselected)] == [False, True, True]
