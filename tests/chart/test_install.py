"""What docs/install.md tells people to type exists."""

from __future__ import annotations

import re

import yaml

from services.commands import catalogue
from services.reconfigurer.controller import values
from services.reconfigurer.controller.kube import AGENT
from shared.sharing import load
from tests.chart.test_values import CHART, DEFAULTS

PAGE = (CHART.parents[1] / "docs" / "install.md").read_text(encoding="utf-8")


def test_every_value_on_the_page_is_one_of_the_chart() -> None:
    """In --set and --set-file, and in words."""
    typed = re.findall(r"--set(?:-file)? ([\w.]+)=", PAGE)
    told = re.findall(r"`((?:bus|nodes|agent|simulation)\.[\w.]+?)(?:=\w+)?`", PAGE)
    assert len(typed) > 8
    known = (*values.FIELDS, *values.CHART_ONLY)
    for path in (*typed, *told):
        assert any(path == name or path.startswith(f"{name}.") for name in known), path


def test_every_command_on_the_page_is_one_of_ours() -> None:
    """Those that are typed by themselves, in a pod, or named."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S))
    typed = [line.split() for line in re.findall(r"^(?:.*-- )?slicewire (.*)", blocks, re.M)]
    named = [each.split() for each in re.findall(r"`slicewire ([a-z ]+)`", PAGE)]
    assert len(typed) >= 3
    for words in (*typed, *named):
        assert catalogue.find(words) is not None, words


def test_the_text_on_the_page_shares_what_it_says() -> None:
    """People copy it."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    config = load.load(text)
    assert [(each.name, each.replicas) for each in config.resources] == [("nvidia.com/gpu", 4)]


def test_rights_on_the_page_are_those_of_the_chart() -> None:
    """Of the controller on the whole cluster, which somebody has to approve."""
    rbac = (CHART / "templates" / "rbac.yaml").read_text(encoding="utf-8")
    plain = re.sub(r"^ *\{\{.*\}\}\n", "", rbac, flags=re.M)
    roles = yaml.safe_load_all(re.sub(r"\{\{.*?\}\}", "x", plain))
    (role,) = (each for each in roles if each["kind"] == "ClusterRole")
    row = re.findall(r"^\| `slicewire-controller`.*", PAGE, re.M)[0]
    for rule in role["rules"]:
        (resource,) = rule["resources"]
        assert f"{resource}: {', '.join(rule['verbs'])};" in row


def test_names_on_the_page_are_those_of_a_release_called_slicewire() -> None:
    """The controller's pod, which people enter, and the Secret, which they delete."""
    assert f"deploy/{AGENT} " in PAGE
    assert "delete secret slicewire-bus" in PAGE
    assert DEFAULTS["bus"]["keysSecret"] == ""
