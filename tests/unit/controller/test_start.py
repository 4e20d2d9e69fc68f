"""A controller that cannot start says why and ends with status 2."""

from __future__ import annotations

import pytest

from services.reconfigurer.controller import __main__, kube


def test_outside_of_a_cluster_it_asks_for_the_api_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback: what is missing and what to write."""
    monkeypatch.delenv(kube.IN_CLUSTER, raising=False)
    assert __main__.main([]) == 2
    assert "--kube-config" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The path stands in the sentence."""
    assert __main__.main(["--kube-config", "/nowhere/config"]) == 2
    assert "/nowhere/config" in capsys.readouterr().err


def test_in_a_pod_the_own_account_is_used() -> None:
    """Nothing needs to be said there."""
    assert kube.missing("", "", {kube.IN_CLUSTER: "10.0.0.1"}) == ""
