from dataclasses import replace

from esg.core.catalog.config import Config
from esg.profiler.compare import Difference, compare
from esg.units import ms
from tests.support.small_catalog import PRICES, SMALL


def test_the_largest_difference_comes_first_and_what_only_one_has_last() -> None:
    detect = SMALL.functions["detect"]
    factors = {Config(1, 1, 1): 0.25, Config(1, 2, 2): 2.0, Config(2, 1, 1): 1.0}
    profile = detect.profile.narrowed(lambda config: config in factors)
    changed = replace(detect, profile=profile.stretched(factors.__getitem__, PRICES))
    other = replace(SMALL, functions={**SMALL.functions, "detect": changed})
    found = compare(SMALL, other).differences
    assert found[:2] == [
        Difference("detect", Config(1, 1, 1), ms(100), ms(25)),
        Difference("detect", Config(1, 2, 2), ms(60), ms(120)),
    ]
    assert [one.ratio for one in found[:3]] == [0.25, 2.0, 1.0]
    assert found[-1] == Difference("detect", Config(2, 2, 2), ms(90), None)


def test_functions_that_only_one_has_are_named() -> None:
    functions = {name: f for name, f in SMALL.functions.items() if name != "depth"}
    found = compare(replace(SMALL, functions=functions), SMALL)
    assert (found.only_one, found.only_other) == ([], ["depth"])
