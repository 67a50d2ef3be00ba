"""Kinds of slices by name, and layouts as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esg.core.catalog.slice_kinds import (
    ALL_ALIKE,
    USUAL,
    check_kind_name,
    layout_text,
    mig_kind,
    parse_layout,
    parse_layouts,
)
from esg.errors import Rejected
from tests.support.small_catalog import CPU, KINDS, LARGE


@given(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=9))
def test_layout_is_read_as_it_is_written(slices: list[str]) -> None:
    assert parse_layout(layout_text(slices, KINDS), KINDS) == tuple(slices)


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        ("2", (USUAL, USUAL)),
        ("1g.10gb", (USUAL,)),
        ("2x1g.10gb+3g.40gb", (USUAL, USUAL, LARGE)),
        (" cpu-2 + 1 ", (CPU, USUAL)),
        ("2xcpu-2", (CPU, CPU)),
    ],
)
def test_layout_may_be_said_in_several_ways(text: str, slices: tuple[str, ...]) -> None:
    assert parse_layout(text, KINDS) == slices


def test_layouts_that_nodes_have_in_turn_are_separated_by_commas() -> None:
    assert parse_layouts("3g.40gb, 2", KINDS) == [(LARGE,), (USUAL, USUAL)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no number of slices"),
        ("3g.40gb+", "no number of slices"),
        ("4g.40gb", "did you mean '3g.40gb'"),
        ("0", "0 slices; a node has 1 to"),
        ("1001", "1001 slices; a node has 1 to"),
        ("600+3g.40gb+600", "1201 slices; a node has 1 to"),
        ("-1", "unknown kind of slices"),
        ("9" * 5000, "unknown kind of slices"),
    ],
)
def test_layout_that_cannot_be_is_refused_shortly(text: str, says: str) -> None:
    with pytest.raises(Rejected, match=says) as refused:
        parse_layout(text, KINDS)
    assert len(str(refused.value)) < 400


def test_where_all_slices_are_alike_a_layout_is_their_number() -> None:
    assert parse_layout("3", ALL_ALIKE) == (USUAL,) * 3
    with pytest.raises(Rejected, match=r"unknown kind of slices '3g\.40gb'"):
        parse_layout("3g.40gb", ALL_ALIKE)


@pytest.mark.parametrize("name", ["3g.40gb", "gpu-L4", "cpu-2", "gpu_NVIDIA-RTX-4090"])
def test_name_of_a_device_can_be_a_kind(name: str) -> None:
    check_kind_name(name)


@pytest.mark.parametrize("name", ["", "7", "2x3g.40gb", "a b", "a+b", "a,b", "x" * 101, "ü", "-a"])
def test_name_that_a_layout_could_not_tell_is_no_kind(name: str) -> None:
    with pytest.raises(Rejected, match=r"letters, digits, dots and dashes, as in 3g\.40gb"):
        check_kind_name(name)


def test_price_of_a_mig_instance_is_by_its_share_of_the_usual_one() -> None:
    by_gpcs, of_2g = mig_kind("4g.40gb", 0.5), mig_kind("4g.40gb", 0.5, usual="2g.20gb")
    assert by_gpcs is not None
    assert of_2g is not None
    assert (by_gpcs.usd_per_hour, of_2g.usd_per_hour) == (2.0, 1.0)
    assert mig_kind("gpu-L4", 0.5) is None
    with_media = mig_kind("1g.10gb+me", 0.5)
    assert with_media is not None
    assert with_media.memory_mb == 10_000
