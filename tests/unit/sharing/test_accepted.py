"""What a sharing text is read as, by case number."""

from __future__ import annotations

import pytest

from shared.domain.errors import Problem
from shared.domain.health import DEFAULT_RULES, HealthRules
from shared.domain.sharing import AllocationPolicy, MigStrategy, SharedResource, Strategy
from shared.sharing import load
from tests.unit.sharing import texts

GPU = "nvidia.com/gpu"
UUID = "GPU-b1028956-cfa2-0990-bf4a-5da9abb51763"


def gpu(replicas: int, rename: str | None = None, *devices: str) -> SharedResource:
    return SharedResource(name=GPU, replicas=replicas, rename=rename, devices=devices or None)


ANY = """\
version: v1
flags:
  migStrategy: none
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""
OPENSHIFT = """\
version: v1
sharing:
  timeSlicing:
    resources:
      - name: nvidia.com/gpu
        replicas: 8
      - name: nvidia.com/mig-1g.5gb
        replicas: 1
      - name: nvidia.com/mig-2g.10gb
        replicas: 2
"""
JSON = """{"version": "v1", "sharing": {"timeSlicing": {"resources":
  [{"name": "nvidia.com/gpu", "replicas": 4, "devices": "all"}]}}}"""
MERGED = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - &base {name: nvidia.com/gpu, replicas: 4, devices: [0]}
    - <<: *base
      devices: [1]
"""

# (id, text, resources)
CASES: list[tuple[str, str, tuple[SharedResource, ...]]] = [
    ("F01-any", ANY.rstrip("\n"), (gpu(4),)),
    (
        "F03-replicas-1",
        OPENSHIFT,
        (
            gpu(8),
            SharedResource(name="nvidia.com/mig-1g.5gb", replicas=1),
            SharedResource(name="nvidia.com/mig-2g.10gb", replicas=2),
        ),
    ),
    ("mps-left-empty", ANY + "  mps:\n", (gpu(4),)),
    ("F05-inner-text", texts.gpu("replicas: 5"), (gpu(5),)),
    (
        "F07-both-switches-off",
        texts.sliced(
            "name: nvidia.com/gpu, replicas: 8",
            options="failRequestsGreaterThanOne: false\n    renameByDefault: false",
        ),
        (gpu(8),),
    ),
    (
        "F15-quoted-name",
        "flags: {plugin: {deviceListStrategy: volume-mounts, deviceIDStrategy: index}}\n"
        + texts.sliced(
            'name: "nvidia.com/gpu", replicas: 50', options="renameByDefault: true"
        ).removeprefix("version: v1\n"),
        (gpu(50, "nvidia.com/gpu.shared"),),
    ),
    ("B2-no-version", ANY.removeprefix("version: v1\n"), (gpu(4),)),
    ("B2-replicas-4.0", texts.gpu("replicas: 4.0"), (gpu(4),)),
    ("B2-replicas-1", texts.gpu("replicas: 1"), (gpu(1),)),
    ("B2-name-gpu", texts.sliced("name: gpu, replicas: 4"), (gpu(4),)),
    (
        "B2-name-me",
        texts.sliced("name: mig-1g.10gb.me, replicas: 4"),
        (SharedResource(name="nvidia.com/mig-1g.10gb.me", replicas=4),),
    ),
    ("B2-rename", texts.gpu("replicas: 4, rename: x"), (gpu(4, "nvidia.com/x"),)),
    ("B2-rename-to-itself", texts.gpu("replicas: 4, rename: gpu"), (gpu(4),)),
    (
        "B2-rename-wins-over-default",
        texts.sliced(
            "name: nvidia.com/gpu, replicas: 4, rename: slice", options="renameByDefault: true"
        ),
        (gpu(4, "nvidia.com/slice"),),
    ),
    (
        "B2-unshared-row-keeps-its-name",
        texts.sliced("name: nvidia.com/gpu, replicas: 1", options="renameByDefault: true"),
        (gpu(1),),
    ),
    ("B2-devices-all", texts.gpu("replicas: 4, devices: all"), (gpu(4),)),
    ("B2-devices-index", texts.gpu("replicas: 4, devices: [0]"), (gpu(4, None, "0"),)),
    ("B2-devices-quoted", texts.gpu('replicas: 4, devices: ["0"]'), (gpu(4, None, "0"),)),
    ("U009-pair", texts.gpu("replicas: 4, devices: [1:0]"), (gpu(4, None, "1:0"),)),
    ("U009-quoted", texts.gpu('replicas: 4, devices: ["1:0"]'), (gpu(4, None, "1:0"),)),
    ("U009-zero", texts.gpu("replicas: 4, devices: [0:0]"), (gpu(4, None, "0:0"),)),
    ("U009-1:30", texts.gpu("replicas: 4, devices: [1:30]"), (gpu(4, None, "1:30"),)),
    ("B2-devices-uuid", texts.gpu(f"replicas: 4, devices: [{UUID}]"), (gpu(4, None, UUID),)),
    (
        "two-counts-on-one-node",
        texts.sliced(
            "name: nvidia.com/gpu, replicas: 2, devices: [0]",
            "name: nvidia.com/gpu, replicas: 3, devices: [1]",
        ),
        (gpu(2, None, "0"), gpu(3, None, "1")),
    ),
    ("B2-leading-dashes", "---\n" + ANY, (gpu(4),)),
    ("B2-crlf", ANY.replace("\n", "\r\n"), (gpu(4),)),
    ("B2-bom", "\ufeff" + ANY, (gpu(4),)),
    ("B2-anchor-and-merge", MERGED, (gpu(4, None, "0"), gpu(4, None, "1"))),
    ("B2-json", JSON, (gpu(4),)),
    ("trailing-dashes", ANY + "---\n", (gpu(4),)),
]


@pytest.mark.parametrize(
    ("text", "resources"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_right_text_is_read(text: str, resources: tuple[SharedResource, ...]) -> None:
    """Each text gives the resources that its writer meant."""
    config = load.load(text)
    assert config.strategy is Strategy.TIME_SLICING
    assert config.resources == resources


@pytest.mark.parametrize(
    "text",
    ["", "\n", "# nothing here\n", "---\n", "version: v1", "sharing:\n", "sharing: {}\n", "~"],
)
def test_a_text_without_sharing_leaves_the_node_unshared_and_says_so(text: str) -> None:
    """B2: empty texts are accepted, and the writer is told what they do."""
    config = load.load(text)
    assert config.strategy is Strategy.NONE
    assert config.resources == ()
    assert [warning.message for warning in config.warnings] == [load.NOTHING_SHARED]


@pytest.mark.parametrize(
    ("section", "strategy", "fails"),
    [
        ("timeSlicing", Strategy.TIME_SLICING, False),
        ("mps", Strategy.MPS, True),
    ],
)
def test_requests_above_one_fail_by_default_under_mps_only(
    section: str, strategy: Strategy, fails: bool
) -> None:
    """The default of failRequestsGreaterThanOne depends on the strategy; a text overrides it."""
    resources = "resources: [{name: nvidia.com/gpu, replicas: 2}]"
    config = load.load(f"sharing: {{{section}: {{{resources}}}}}")
    assert (config.strategy, config.fail_requests_greater_than_one) == (strategy, fails)
    opposite = str(not fails).lower()
    text = f"sharing: {{{section}: {{failRequestsGreaterThanOne: {opposite}, {resources}}}}}"
    assert load.load(text).fail_requests_greater_than_one is not fails


def test_time_slicing_left_empty_leaves_mps() -> None:
    """As the other way round."""
    config = load.load(ANY.replace("timeSlicing:", "timeSlicing:\n  mps:"))
    assert (config.strategy, config.resources) == (Strategy.MPS, (gpu(4),))


def test_several_slots_of_mps_clients_come_with_a_word() -> None:
    """Slots of one GPU go together, slots of two do not; NVIDIA's daemon has all GPUs."""
    text = (
        "version: v1\nsharing:\n  mps:\n    failRequestsGreaterThanOne: %s\n"
        "    resources: [{name: nvidia.com/gpu, replicas: 2}]\n"
    )
    (warning,) = load.load(text % "false").warnings
    path = "sharing.mps.failRequestsGreaterThanOne"
    assert warning == Problem(path, 4, 33, load.ONE_DAEMON)
    assert not load.load(text % "true").warnings


def test_every_flag_of_nvidia_is_accepted_and_those_without_effect_are_named() -> None:
    """A text from a cluster that moves over is read whole; one warning lists what stays idle."""
    config = load.load(
        """\
version: v1
flags:
  migStrategy: mixed
  failOnInitError: true
  mpsRoot: /run/nvidia/mps
  nvidiaDriverRoot: /
  nvidiaDevRoot: /
  gdrcopyEnabled: false
  gdsEnabled: false
  mofedEnabled: false
  useNodeFeatureAPI: null
  deviceDiscoveryStrategy: auto
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [envvar, cdi-annotations]
    deviceIDStrategy: uuid
    cdiAnnotationPrefix: cdi.k8s.io/
    nvidiaCTKPath: /usr/bin/nvidia-ctk
    containerDriverRoot: /driver-root
    sharedDevicesAllocationPolicy: packed
  gfd:
    oneshot: false
    noTimestamp: false
    sleepInterval: 1m0s
    outputFile: /etc/kubernetes/gfd
    machineTypeFile: /sys/class/dmi/id/product_name
resources:
  gpus: [{pattern: "*", name: gpu}]
  mig: [{pattern: "1g.10gb", name: small}]
imex: {channelIDs: [0], required: false}
sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}
"""
    )
    assert config.mig_strategy is MigStrategy.MIXED
    assert config.allocation_policy is AllocationPolicy.PACKED
    (warning,) = config.warnings
    assert (warning.path, warning.line) == ("flags.failOnInitError", 4)
    assert "flags.plugin.deviceListStrategy" in warning.message
    assert "flags.migStrategy" not in warning.message


@pytest.mark.parametrize("interval", ["60s", "1h30m", "infinite", "60000000000", "1.5h"])
def test_durations_of_nvidia_are_accepted(interval: str) -> None:
    """Durations are read as NVIDIA's parser does, a bare number included."""
    load.load(f"flags: {{gfd: {{sleepInterval: {interval}}}}}")


@pytest.mark.parametrize("policy", list(AllocationPolicy))
def test_our_own_section_sets_the_allocation_policy(policy: AllocationPolicy) -> None:
    """The three policies are words under slicewire."""
    config = load.load(f"slicewire: {{allocationPolicy: {policy.value}}}")
    assert config.allocation_policy is policy


@pytest.mark.parametrize("name", ["e1", "e-5", "e100"])
def test_a_name_that_begins_like_an_exponent_is_a_name(name: str) -> None:
    """A number has a digit before its exponent."""
    config = load.load(ANY + f"      rename: {name}\n")
    assert config.resources[0].rename == f"nvidia.com/{name}"


def test_places_do_not_make_two_configs_differ() -> None:
    """A comment above an entry moves it, and changes nothing that is published."""
    first = load.load(ANY)
    moved = load.load("# moved\n" + ANY)
    assert first == moved
    assert first.resources[0].place.line == 7
    assert moved.resources[0].place.line == 8


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ("{ignore: [94, 63], fatal: [31]}", HealthRules(ignore=(63, 94), fatal=(31,))),
        ("{recoverAfter: 5m}", HealthRules(recover_after_s=300)),
        ("{recoverAfter: 1h30m10s}", HealthRules(recover_after_s=5410)),
        ("{recoverAfter: never}", HealthRules(recover_after_s=None)),
        ("{ignore: [], fatal: null, recoverAfter: null}", DEFAULT_RULES),
        ("", DEFAULT_RULES),
    ],
)
def test_health_says_which_xids_count_and_when_a_device_is_served_again(
    written: str, rules: HealthRules
) -> None:
    """In a text that shares and in one that does not."""
    section = f"slicewire:\n  health: {written}\n"
    assert load.load(section).health == rules
    assert load.load(ANY + section).health == rules


def test_a_text_that_says_nothing_of_health_leaves_it_as_it_is() -> None:
    assert load.load(ANY).health == DEFAULT_RULES
