"""A controller that cannot start says why and ends with status 2."""

from __future__ import annotations

import pathlib

import pytest

from services.commands import cleanup
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


@pytest.mark.parametrize(
    "text", ["", "a word", "- a list", "a: [", "apiVersion: v1\nkind: Config\nclusters: []\n"]
)
def test_a_file_that_is_no_kubeconfig_is_named(
    text: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback for a file that was named by mistake, of the service or of a command."""
    file = tmp_path / "config"
    file.write_text(text, encoding="utf-8")
    for main in (__main__.main, cleanup.main):
        assert main(["--kube-config", str(file)]) == 2
        assert f"the kubeconfig file {file} cannot be used: " in capsys.readouterr().err


def test_an_address_without_a_scheme_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """What to write stands beside it."""
    assert __main__.main(["--api-url", "127.0.0.1:6443"]) == 2
    assert "write http://HOST:PORT" in capsys.readouterr().err


def test_in_a_pod_the_own_account_is_used() -> None:
    """Nothing needs to be said there."""
    assert kube.missing("", "", {kube.IN_CLUSTER: "10.0.0.1"}) == ""
