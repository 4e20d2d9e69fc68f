"""What a name means for each GPU of a node: rows, filters, built-in names, and refusals."""

from __future__ import annotations

import dataclasses

import pytest

from shared.domain.errors import Problem, RefusedError
from shared.geometry import builtin, load, place, resolve
from shared.geometry.config import GeometryConfig, Wanted
from shared.geometry.resolve import Target
from shared.simulation.gpu import catalogue, cutting
from tests.support import cuts

NO_TEXT = GeometryConfig()

# Three names in the form of NVIDIA's default file: lists of filters, and one as a single text.
DEFAULT_FILE = """\
version: v1
mig-configs:
  all-disabled:
  - {devices: all, mig-enabled: false}
  all-1g.10gb.me:
  - device-filter: ["0x20B210DE", "0x20B510DE"]
    devices: all
    mig-enabled: true
    mig-devices: {"1g.10gb+me": 1}
  all-balanced:
  - device-filter: ["0x20B010DE", "0x20B110DE", "0x20F110DE"]
    devices: all
    mig-enabled: true
    mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
  - device-filter: "0x20B710DE"
    devices: all
    mig-enabled: true
    mig-devices: {"1g.6gb": 2, "2g.12gb": 1}
"""

# A workstation whose display card stands among the compute cards, as index 3.
STATION = """\
version: v1
mig-configs:
  all-1g.10gb:
  - {device-filter: "0x1FB010DE", devices: all, mig-enabled: false, mig-devices: {}}
  - {device-filter: "0x20B210DE", devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  custom:
  - {devices: [3], mig-enabled: false, mig-devices: {}}
  - {devices: [0], mig-enabled: false}
  - {devices: [1, 2, 4], mig-enabled: true, mig-devices: {3g.40gb: 2}}
"""


def target(index: int, model: str) -> Target:
    """A catalogue GPU at an index."""
    known = catalogue.model(model)
    first = known.boards[0]
    return Target(
        index=index,
        model=first.product,
        pci_device=first.device << 16 | 0x10DE,
        board=cutting.board(known),
    )


def node(*models: str) -> tuple[Target, ...]:
    """Catalogue GPUs in index order."""
    return tuple(target(index, model) for index, model in enumerate(models))


DISPLAY = Target(index=3, model="NVIDIA DGX Display", pci_device=0x1FB010DE, board=None)


def refused(text: str, name: str, gpus: tuple[Target, ...]) -> tuple[Problem, ...]:
    """The problems that a name is refused with."""
    config = load.load(text)
    with pytest.raises(RefusedError) as caught:
        resolve.resolve(config, name, gpus)
    return caught.value.problems


def cut(**counts: int) -> Wanted:
    """MIG on with these profiles, their names as words: g1_5gb is 1g.5gb."""
    named = {f"{key[1]}g.{key[3:]}": count for key, count in counts.items()}
    return Wanted(enabled=True, counts=tuple(sorted(named.items())))


# --------------------------------------------------------------------------------------- rows


def test_f25_balanced_in_the_default_file() -> None:
    """Each GPU takes the row of its own PCI id, whether the filter is a list or one text."""
    found = resolve.resolve(load.load(DEFAULT_FILE), "all-balanced", node("a100-40gb", "a30-24gb"))
    assert found.wanted == {0: cut(g1_5gb=2, g2_10gb=1, g3_20gb=1), 1: cut(g1_6gb=2, g2_12gb=1)}


def test_f25_a_node_that_no_row_speaks_of_is_refused() -> None:
    """A T4 is not done with successfully when nothing was done."""
    (problem,) = refused(DEFAULT_FILE, "all-balanced", node("t4"))
    assert problem.sentence() == (
        "mig-configs.all-balanced, line 11, column 5: no row of all-balanced matches a GPU of this"
        " node, nothing would be done (the node has GPU 0 (Tesla T4) 0x1EB810DE)"
    )


def test_f25_a_gpu_that_no_row_speaks_of_stays_with_a_warning() -> None:
    """The others are cut."""
    found = resolve.resolve(load.load(DEFAULT_FILE), "all-balanced", node("t4", "a30-24gb"))
    assert found.wanted.keys() == {1}
    assert [warning.message for warning in found.warnings] == [
        "all-balanced says nothing of GPU 0 (Tesla T4): its geometry stays as it is"
    ]


def test_f25_names_have_dots_where_profiles_have_plus_signs() -> None:
    """`all-1g.10gb.me` asks for 1g.10gb+me."""
    found = resolve.resolve(load.load(DEFAULT_FILE), "all-1g.10gb.me", node("a100-80gb"))
    assert found.wanted == {0: Wanted(enabled=True, counts=(("1g.10gb+me", 1),))}


def test_f27_a_display_card_among_compute_cards_is_left_alone() -> None:
    """`devices: all` means all that the filter matches; indexes count all cards of the node."""
    compute = [target(index, "a100-80gb") for index in (0, 1, 2, 4)]
    gpus = (*compute[:3], DISPLAY, compute[3])
    station = load.load(STATION)
    found = resolve.resolve(station, "all-1g.10gb", gpus)
    assert found.wanted == dict.fromkeys((0, 1, 2, 4), cut(g1_10gb=7))
    assert found.warnings == ()
    custom = resolve.resolve(station, "custom", gpus)
    halves = dict.fromkeys((1, 2, 4), cut(g3_40gb=2))
    assert custom.wanted == {0: Wanted(enabled=False), **halves}


def test_the_later_row_wins_for_a_gpu() -> None:
    """B2: all off, then GPU 0 on."""
    text = (
        "version: v1\nmig-configs:\n  a:\n  - {devices: all, mig-enabled: false}\n"
        "  - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}\n"
    )
    found = resolve.resolve(load.load(text), "a", node("a100-80gb", "a100-80gb"))
    assert found.wanted == {0: cut(g1_10gb=7), 1: Wanted(enabled=False)}


def test_u055_each_gpu_has_ids_of_its_own() -> None:
    """GPU 1 is cut by its own id 14, GPU 0 with its id 15 is not spoken of."""
    first, second = node("a30-24gb", "a30-24gb")
    assert first.board is not None
    assert second.board is not None
    others = tuple(
        dataclasses.replace(each, id=15) if each.name == "1g.6gb" else each
        for each in first.board.profiles
    )
    first = dataclasses.replace(first, board=dataclasses.replace(first.board, profiles=others))
    text = (
        "version: v1\nmig-configs:\n  a: [{devices: [1], mig-enabled: true, mig-devices:"
        " {1g.6gb: 4}}]\n"
    )
    assert resolve.resolve(load.load(text), "a", (first, second)).wanted == {1: cut(g1_6gb=4)}
    assert second.board.profile("1g.6gb").id == 14


def test_f31_profiles_are_those_of_the_gpu_in_the_node() -> None:
    """The layouts of a B200 are taken by a B200 and refused by an A100."""
    text = (
        "version: v1\nmig-configs:\n  seven: [{devices: all, mig-enabled: true, mig-devices:"
        " {1g.23gb: 7}}]\n  three: [{devices: all, mig-enabled: true, mig-devices: {2g.45gb: 3}}]\n"
    )
    config = load.load(text)
    assert resolve.resolve(config, "seven", node("b200-180gb")).wanted == {0: cut(g1_23gb=7)}
    assert resolve.resolve(config, "three", node("b200-180gb")).wanted == {0: cut(g2_45gb=3)}
    (problem,) = refused(text, "seven", node("a100-80gb"))
    assert problem.path == "mig-configs.seven[0].mig-devices.1g.23gb"
    assert "GPU 0 (NVIDIA A100-SXM4-80GB) has no profile 1g.23gb, it has" in problem.message


def test_f33_memory_that_does_not_fit_the_model_is_refused() -> None:
    """Known wrong tables give an A100 with 80 GB the profiles of one with 40."""
    text = (
        "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices:"
        " {3g.20gb: 1, 2g.10gb: 1}}]\n"
    )
    problems = refused(text, "a", node("a100-80gb"))
    assert [problem.suggestion for problem in problems] == [
        'did you mean "3g.40gb"?',
        'did you mean "2g.20gb"?',
    ]


def test_an_infeasible_layout_is_refused_with_what_fits() -> None:
    """Told in slices, at the first profile of the row, before anybody is disturbed."""
    text = (
        "version: v1\nmig-configs:\n  a:\n  - devices: all\n    mig-enabled: true\n"
        "    mig-devices:\n      3g.40gb: 2\n      1g.10gb: 1\n"
    )
    (problem,) = refused(text, "a", node("a100-80gb"))
    assert problem == Problem(
        "mig-configs.a[0].mig-devices",
        7,
        7,
        "GPU 0 (NVIDIA A100-SXM4-80GB): 3g.40gb + 3g.40gb + 1g.10gb: memory slices 9 of 8",
        "what fits: 3g.40gb + 3g.40gb; 3g.40gb + 2g.20gb + 1g.10gb; 3g.40gb + 1g.20gb + 1g.10gb",
    )


def test_parts_of_gpu_instances_are_refused_with_the_whole() -> None:
    """A partial compute instance would never be advertised."""
    text = (
        "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices:"
        " {1c.3g.40gb: 3}}]\n"
    )
    (problem,) = refused(text, "a", node("a100-80gb"))
    assert problem.suggestion == "write 3g.40gb"


def test_mode_on_a_gpu_without_mig_is_refused() -> None:
    """It names the GPU and how to leave it out."""
    text = "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices: {}}]\n"
    (problem,) = refused(text, "a", node("a100-80gb", "t4"))
    assert problem.message == "GPU 1 (Tesla T4) cannot do MIG"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("1g.5gb", "1g.10gb", id="of the smaller A100"),
        pytest.param("1g.5gb+me", "1g.10gb+me", id="with its attribute"),
        pytest.param("2g.10gb", "2g.20gb", id="two slices"),
        pytest.param("1g.24gb", "1g.20gb", id="more memory for one slice"),
        pytest.param("7g.141gb", "7g.80gb", id="of an H200"),
        pytest.param("6g.80gb", "7g.80gb", id="no such width"),
        pytest.param("9g.10gb", "7g.80gb", id="wider than any"),
    ],
)
def test_a_profile_of_another_model_is_told_its_like(written: str, meant: str) -> None:
    """As many slices and the same attributes come before the letters of the name."""
    text = (
        "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices:"
        f" {{{written}: 1}}}}]\n"
    )
    (problem,) = refused(text, "a", node("a100-80gb"))
    assert problem.suggestion == f'did you mean "{meant}"?'


def test_gpus_of_one_model_are_told_once() -> None:
    """Eight GPUs that cannot be so make one sentence, of the first of them."""
    text = (
        "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices:"
        " {1c.3g.40gb: 3, 1g.5gb: 1}}]\n"
    )
    problems = refused(text, "a", node(*["a100-80gb"] * 8, "a30-24gb"))
    assert [problem.message.partition(" has")[0] for problem in problems] == [
        "1c.3g.40gb is a part of a GPU instance, and such parts are never advertised",
        "GPU 8 (NVIDIA A30)",
        "GPU 0 (NVIDIA A100-SXM4-80GB)",
        "GPU 8 (NVIDIA A30)",
    ]


# ----------------------------------------------------------------------------- built-in names


@pytest.mark.parametrize("name", ["all-enabled", "all-balanced", "all-1g.10gb"])
def test_f25_a_node_that_cannot_do_mig_is_told_so(name: str) -> None:
    """The names exist, so nobody is asked whether they meant another one."""
    (problem,) = refused("version: v1\n", name, node("t4", "l4"))
    assert problem.sentence() == (
        f"mig-configs: {name} is for GPUs that can do MIG, and this node has none"
        " (the node has GPU 0 (Tesla T4), GPU 1 (NVIDIA L4))"
    )


def test_a_built_in_name_of_another_model_is_told_its_like() -> None:
    """The smallest instance of an A100 with 40 GB is 1g.5gb, of one with 80 GB 1g.10gb."""
    (problem,) = refused("version: v1\n", "all-1g.5gb", node("a100-80gb"))
    assert problem.suggestion.startswith('did you mean "all-1g.10gb"? there are all-disabled,')


def test_u075_an_unknown_name_lists_the_names_with_the_nearest() -> None:
    """It is found again as soon as the text has it."""
    (problem,) = refused(DEFAULT_FILE, "all-balancd", node("a30-24gb"))
    assert problem.message == "there is no MIG config all-balancd"
    assert problem.suggestion == (
        'did you mean "all-balanced"? there are all-disabled, all-1g.10gb.me, all-balanced,'
        " all-enabled, all-1g.6gb, all-1g.6gb.me, all-2g.12gb, all-2g.12gb.me, all-4g.24gb"
    )


@pytest.mark.parametrize("model", cuts.MODELS)
def test_every_built_in_name_fits_every_model_that_has_it(model: str) -> None:
    """Each name gives as many of its profile as the model takes, and all of them fit."""
    board = cuts.board(model)
    names = builtin.names((board,))
    assert len(names) == len(board.profiles) + 3
    for name in names:
        wanted = resolve.resolve(NO_TEXT, name, (target(0, model),)).wanted[0]
        assert wanted.enabled is (name != builtin.DISABLED)
        assert place.fit(board, dict(wanted.counts)) is not None
    for profile in board.profiles:
        wanted = resolve.resolve(
            NO_TEXT, f"all-{profile.name.replace('+', '.')}", (target(0, model),)
        ).wanted[0]
        assert wanted.counts == ((profile.name, profile.most),)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("a100-40gb", cut(g1_5gb=2, g2_10gb=1, g3_20gb=1)),
        ("a100-80gb", cut(g1_10gb=2, g2_20gb=1, g3_40gb=1)),
        ("a30-24gb", cut(g1_6gb=2, g2_12gb=1)),
        ("h200-141gb", cut(g1_18gb=2, g2_35gb=1, g3_71gb=1)),
        ("rtx-pro-6000-blackwell-96gb", cut(g1_24gb=2, g2_48gb=1)),
    ],
)
def test_balanced_is_that_of_nvidias_default_file(model: str, wanted: Wanted) -> None:
    """Two 1g, a 2g, and a 3g where there is one."""
    assert resolve.resolve(NO_TEXT, "all-balanced", node(model)).wanted == {0: wanted}


def test_a_name_of_the_text_goes_before_the_built_in_one() -> None:
    """Somebody's own all-balanced is theirs."""
    text = "version: v1\nmig-configs: {all-balanced: [{devices: all, mig-enabled: false}]}\n"
    found = resolve.resolve(load.load(text), "all-balanced", node("a100-80gb"))
    assert found.wanted == {0: Wanted(enabled=False)}


def test_a_built_in_name_speaks_only_of_gpus_that_have_its_profile() -> None:
    """On a mixed node the others stay, with a warning."""
    found = resolve.resolve(NO_TEXT, "all-1g.5gb", node("a100-40gb", "a30-24gb"))
    assert found.wanted == {0: cut(g1_5gb=7)}
    assert len(found.warnings) == 1


def test_all_disabled_suits_a_gpu_without_mig() -> None:
    """There is nothing to do, and nothing to say."""
    found = resolve.resolve(NO_TEXT, "all-disabled", node("t4"))
    assert found == resolve.Resolved({})
    assert found.warnings == ()
