"""Which functions are planned on none of a kind of slices, and why."""

from dataclasses import replace

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.shipped import CPU, SHIPPED
from esg.core.catalog.slice_kinds import USUAL
from esg.core.catalog.unplanned import unplanned

KNOWN = load_catalog()


def without(catalog: Catalog, function: str, kind: str) -> Catalog:
    one = catalog.functions[function]
    others = [other for other in one.profile.kinds if other != kind]
    narrowed = replace(one, profile=one.profile.on_kinds(others))
    return replace(catalog, functions={**catalog.functions, function: narrowed})


def test_nothing_is_missing_on_kinds_that_all_profiles_know() -> None:
    assert unplanned(KNOWN, [USUAL, "3g.40gb", USUAL]) == []


def test_a_function_without_a_profile_for_a_kind_is_named() -> None:
    (found,) = unplanned(without(KNOWN, "depth", "3g.40gb"), [USUAL, "3g.40gb"])
    assert (found.kind, found.unprofiled, found.too_large) == ("3g.40gb", ("depth",), ())
    assert not found.nothing


def test_a_kind_that_nobody_knows_has_nothing() -> None:
    (found,) = unplanned(KNOWN, ["cpu-1"])
    assert found.nothing
    assert found.unprofiled == tuple(KNOWN.functions)


def test_a_function_that_is_larger_than_a_slice_is_told_apart() -> None:
    one = replace(KNOWN.functions["depth"], memory_mb=20_000)
    catalog = replace(KNOWN, functions={**KNOWN.functions, "depth": one})
    (found,) = unplanned(catalog, [USUAL, "3g.40gb"])
    assert (found.kind, found.unprofiled, found.too_large) == ("1g.10gb", (), ("depth",))


def test_the_catalog_for_slices_without_a_gpu_is_whole() -> None:
    """All functions on slices of one and of two threads, and every deadline can be met."""
    catalog = load_catalog(SHIPPED[CPU])
    assert catalog.functions.keys() == KNOWN.functions.keys()
    assert catalog.applications.keys() == KNOWN.applications.keys()
    assert unplanned(catalog, [USUAL, "cpu-2"]) == []
    assert catalog.kinds[USUAL].name == "cpu-1"
    assert catalog.unmeetable() == {}
