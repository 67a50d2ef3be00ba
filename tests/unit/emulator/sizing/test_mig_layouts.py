"""NVIDIA's placement rules, against the combinations that its MIG User Guide lists."""

from itertools import combinations_with_replacement

import pytest

from esg.core.catalog.slice_kinds import layout_text
from esg.emulator.sizing.mig_layouts import (
    GPU_MODELS,
    GpuModel,
    full_placements,
    gpu_model,
    maximal_layouts,
    placement_of,
    why_not,
)
from esg.errors import Rejected

LISTED = """
7
4 3 | 4 2 1 | 4 1 1 1
3 3 | 3 2 1 | 3 1 1 1
2 2 3 | 2 2 2 1 | 2 2 1 1 1
2 1 1 3 | 2 1 1 2 1 | 2 1 1 1 1 1
1 1 2 3 | 1 1 2 2 1 | 1 1 2 1 1 1
1 1 1 1 3 | 1 1 1 1 2 1 | 1 1 1 1 1 1 1
"""
"""The guide's nineteen ways to fill an A100 or H100, in GPCs from left to right."""

ON_80GB = {"1": "1g.10gb", "2": "2g.20gb", "3": "3g.40gb", "4": "4g.40gb", "7": "7g.80gb"}
ON_40GB = {"1": "1g.5gb", "2": "2g.10gb", "3": "3g.20gb", "4": "4g.20gb", "7": "7g.40gb"}


@pytest.mark.parametrize(
    ("name", "kinds"), [("a100-80gb", ON_80GB), ("h100-80gb", ON_80GB), ("a100-40gb", ON_40GB)]
)
def test_the_ways_to_fill_a_gpu_are_the_nineteen_of_the_guide(
    name: str, kinds: dict[str, str]
) -> None:
    listed = {
        tuple(kinds[gpcs] for gpcs in line.split())
        for line in LISTED.replace("\n", "|").split("|")
        if line.strip()
    }
    found = full_placements(gpu_model(name), kinds.values())
    assert len(listed) == len(found) == 19
    assert {tuple(kind for kind, _ in placement) for placement in found} == listed


def test_the_ways_to_fill_an_a30_are_four_whatever_their_order() -> None:
    found = full_placements(gpu_model("a30"))
    ways = {tuple(sorted(kind for kind, _ in placement)) for placement in found}
    assert ways == {
        ("4g.24gb",),
        ("2g.12gb", "2g.12gb"),
        ("1g.6gb", "1g.6gb", "2g.12gb"),
        ("1g.6gb",) * 4,
    }


def test_a_layout_that_another_one_contains_is_not_maximal() -> None:
    """3 2 1 fills a GPU where 3g begins at 0; where it begins at 4, another 1g has room."""
    found = [
        layout_text(layout) for layout in maximal_layouts(gpu_model("a100-80gb"), ON_80GB.values())
    ]
    assert found == [
        "7g.80gb",
        "4g.40gb+3g.40gb",
        "4g.40gb+2g.20gb+1g.10gb",
        "4g.40gb+3x1g.10gb",
        "2x3g.40gb",
        "3g.40gb+2x2g.20gb",
        "3g.40gb+2g.20gb+2x1g.10gb",
        "3g.40gb+4x1g.10gb",
        "3x2g.20gb+1g.10gb",
        "2x2g.20gb+3x1g.10gb",
        "2g.20gb+5x1g.10gb",
        "7x1g.10gb",
    ]


def test_few_kinds_leave_what_they_can_fill() -> None:
    found = maximal_layouts(gpu_model("a100-80gb"), ["3g.40gb", "2g.20gb"])
    assert found == [
        ("3g.40gb", "3g.40gb"),
        ("3g.40gb", "2g.20gb", "2g.20gb"),
        ("2g.20gb", "2g.20gb", "2g.20gb"),
    ]
    assert maximal_layouts(gpu_model("a30"), []) == [()]


@pytest.mark.parametrize("model", GPU_MODELS.values(), ids=lambda model: model.name)
def test_what_can_be_placed_is_what_some_full_layout_contains(model: GpuModel) -> None:
    full = [sorted(kind for kind, _ in placement) for placement in full_placements(model)]
    for count in range(1, 5):
        for kinds in combinations_with_replacement(model.kinds, count):
            contained = any(
                all(whole.count(kind) >= kinds.count(kind) for kind in kinds) for whole in full
            )
            assert (placement_of(model, kinds) is not None) == contained
            assert (why_not(model, kinds) is None) == contained


def test_placed_instances_begin_where_they_may_and_do_not_overlap() -> None:
    model = gpu_model("h100-80gb")
    placed = placement_of(model, ["1g.10gb", "3g.40gb", "1g.10gb", "1g.20gb"])
    assert placed is not None
    taken = [
        slot for kind, start in placed for slot in range(start, start + model.profile(kind).size)
    ]
    assert len(set(taken)) == len(taken)
    assert all(start in model.profile(kind).starts for kind, start in placed)


WHY = {
    (): "a GPU needs at least one instance",
    (
        "4g.40gb",
        "4g.40gb",
    ): "2x4g.40gb does not fit on an a100-80gb: of 4g.40gb it can have 1 at most",
    ("4g.40gb", "2g.20gb", "2g.20gb"): (
        "4g.40gb+2x2g.20gb does not fit on an a100-80gb: instances can only begin at certain "
        "slices of memory (4g.40gb at 0, 2g.20gb at 0 or 2 or 4)"
    ),
    ("3g.20gb",): "a100-80gb: unknown MIG profile '3g.20gb'; did you mean '3g.40gb'?",
}


@pytest.mark.parametrize(("kinds", "words"), WHY.items())
def test_what_does_not_fit_is_told_in_a_sentence(kinds: tuple[str, ...], words: str) -> None:
    assert why_not(gpu_model("a100-80gb"), kinds) == words


def test_memory_runs_out_before_gpcs() -> None:
    words = why_not(gpu_model("a100-80gb"), ["3g.40gb", "3g.40gb", "1g.10gb"])
    assert words is not None
    assert "that takes 9 slices of memory, and it has 8" in words


def test_an_unknown_gpu_is_refused_with_the_nearest() -> None:
    with pytest.raises(Rejected, match="unknown GPU model 'a100'"):
        gpu_model("A100")
