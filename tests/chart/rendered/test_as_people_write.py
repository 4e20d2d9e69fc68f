"""Values as people write them: in Flux, with --set-file, half filled in."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from tests.chart.rendered.helm import RefusedError, of_kind, rendered

FLUX = """
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: slicewire
spec:
  values:
    nodes:
      runtimeClassName: nvidia
    sharing:
      configMap:
        create: true
        data:
          default: |
            version: v1
            sharing:
              timeSlicing:
                renameByDefault: false
                resources:
                - name: nvidia.com/gpu
                  replicas: 10   # "ten"; {{ not a template }}
"""


def test_f17_a_text_three_levels_deep_stays_byte_for_byte() -> None:
    """F17: values inside a HelmRelease; the ConfigMap holds the text exactly."""
    values = yaml.safe_load(FLUX)["spec"]["values"]
    maps = of_kind(rendered(values), "ConfigMap")
    assert maps["sharing"]["data"] == values["sharing"]["configMap"]["data"]
    assert maps["sharing"]["data"]["default"].endswith('# "ten"; {{ not a template }}\n')


def test_f19_a_file_becomes_the_only_key(tmp_path: pathlib.Path) -> None:
    """F19: --set-file, with a key called config; quotes, tabs and blank ends arrive."""
    text = 'version: v1\nflags: {migStrategy: "none"}\t \n\n# end\n'
    file = tmp_path / "sharing.yaml"
    file.write_text(text)
    objects = rendered(
        None,
        *("--set", "sharing.configMap.create=true"),
        *("--set-file", f"sharing.configMap.data.config={file}"),
    )
    assert of_kind(objects, "ConfigMap")["sharing"]["data"] == {"config": text}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        pytest.param(
            {"sharing": {"configMap": {"create": True}}}, "/sharing/configMap/data", id="F23"
        ),
        pytest.param({"sharing": {"configmap": {}}}, "/sharing", id="misspelt"),
        pytest.param({"bus": {"url": "nats://a:4222"}}, "/bus", id="risk not accepted"),
        pytest.param({"config": {"map": {}}}, "config", id="of NVIDIA's chart"),
    ],
)
def test_what_would_do_nothing_is_refused(given: dict[str, object], path: str) -> None:
    """Helm stops, and says which value it is about."""
    with pytest.raises(RefusedError) as refusal:
        rendered(given)
    assert path.strip("/").replace("/", ".") in str(refusal.value).replace("/", ".")
