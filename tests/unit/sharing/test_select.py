"""Which key of the ConfigMap a node gets, and what is said when it gets none."""

from __future__ import annotations

import pytest

from shared.domain.sharing import SourceKind
from shared.sharing import select
from tests.support import hardware

LABEL = "nvidia.com/device-plugin.config"
T4 = hardware.gpu(0, model="Tesla T4")
A100 = hardware.gpu(1)


def chosen(
    keys: tuple[str, ...] | None,
    label: str = "",
    *rules: select.Rule,
    key: str = "",
    more: dict[str, str] | None = None,
) -> select.Selected:
    """The choice for a node with a T4 and an A100."""
    labels = {LABEL: label, **(more or {})}
    values = select.Choice(label=LABEL, rules=rules, key=key)
    return select.select(labels, (T4, A100), keys, values)


RULE = select.Rule(key="rule", product="Tesla-T4")

ORDER = [
    ("label-first", chosen(("a", "rule", "named", "default"), "a", RULE, key="named"), "label a"),
    ("then-rule", chosen(("a", "rule", "named", "default"), "", RULE, key="named"), "rule rule"),
    ("then-named", chosen(("a", "named", "default"), key="named"), "key named"),
    ("then-default", chosen(("a", "default")), "default default"),
    ("then-only-U017-F19", chosen(("Tesla-T4",)), "only Tesla-T4"),
    ("two-keys-U017-F19", chosen(("a", "b")), "none "),
    ("no-keys-F23", chosen(()), "none "),
    ("no-config-map", chosen(None), "none "),
    ("F01-any-is-no-wildcard", chosen(("any", "other")), "none "),
]


@pytest.mark.parametrize(
    ("selected", "expected"), [case[1:] for case in ORDER], ids=[case[0] for case in ORDER]
)
def test_the_first_that_speaks_decides(selected: select.Selected, expected: str) -> None:
    """Label, rule, named key, default, only key, nothing: in this order."""
    assert f"{selected.kind.value} {selected.key}" == expected
    assert selected.found


def test_two_keys_are_listed_with_the_ways_to_choose() -> None:
    """U017: unshared, and the Event says what there is and what to do."""
    sentence = chosen(("t4", "a100")).sentence
    assert "the ConfigMap has the keys a100, t4" in sentence
    assert f"label the node {LABEL}=<key>" in sentence


@pytest.mark.parametrize(
    ("selected", "kind", "sentence"),
    [
        pytest.param(
            chosen(("default", "t4"), "T-4"),
            SourceKind.LABEL,
            f"the node label {LABEL} names the key T-4, which is not there:"
            " the ConfigMap has the keys default, t4",
            id="U013-label",
        ),
        pytest.param(
            chosen(("default",), "", RULE),
            SourceKind.RULE,
            "selection rule 1 names the key rule, which is not there:"
            " the ConfigMap has the keys default",
            id="rule",
        ),
        pytest.param(
            chosen((), key="any"),
            SourceKind.KEY,
            "the chart value names the key any, which is not there: the ConfigMap has no keys",
            id="named",
        ),
        pytest.param(
            chosen(None, "any"),
            SourceKind.LABEL,
            f"the node label {LABEL} names the key any, which is not there:"
            " the ConfigMap is missing",
            id="config-map-missing",
        ),
    ],
)
def test_a_named_key_that_is_absent_is_not_replaced_by_another(
    selected: select.Selected, kind: SourceKind, sentence: str
) -> None:
    """U013: the last good text stays; the keys are named."""
    assert (selected.kind, selected.found, selected.sentence) == (kind, False, sentence)


def test_the_nearest_key_is_the_suggestion() -> None:
    """As of every problem, on its own: programs show it where they like."""
    problem = chosen(("default", "t4"), "T-4").problem
    assert (problem.path, problem.suggestion) == ("data", 'did you mean "t4"?')
    assert "did you mean" not in problem.message
    assert chosen((), key="any").problem.suggestion == ""


@pytest.mark.parametrize(
    ("rule", "meets"),
    [
        pytest.param(select.Rule(key="k", product="Tesla T4"), True, id="product-as-nvml-says"),
        pytest.param(select.Rule(key="k", product="*A100*"), True, id="product-pattern"),
        pytest.param(select.Rule(key="k", product="H100*"), False, id="other-product"),
        pytest.param(select.Rule(key="k", pci_id="0x20B210DE"), True, id="pci-id"),
        pytest.param(select.Rule(key="k", pci_id="0x20b210de"), True, id="pci-id-lower-case"),
        pytest.param(select.Rule(key="k", pci_id="0x1EB810DE"), False, id="other-pci-id"),
        pytest.param(select.Rule(key="k", labels={"team": "vision"}), True, id="label"),
        pytest.param(select.Rule(key="k", labels={"team": "speech"}), False, id="other-label"),
        pytest.param(
            select.Rule(key="k", product="Tesla-T4", labels={"team": "speech"}),
            False,
            id="all-conditions-hold",
        ),
    ],
)
def test_a_rule_holds_when_all_its_conditions_do(rule: select.Rule, meets: bool) -> None:
    """Product and PCI id of one GPU, and the labels of the node."""
    selected = chosen(("k", "default"), "", rule, more={"team": "vision"})
    assert selected.kind is (SourceKind.RULE if meets else SourceKind.DEFAULT)
