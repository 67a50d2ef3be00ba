"""The first seeds; `make simulate` tells more of them."""

import pytest

from tests.simulation.checked_run import tell
from tests.simulation.story import draw

SEEDS, GROUP = 200, 20


@pytest.mark.parametrize("first_seed", range(0, SEEDS, GROUP))
def test_promises_are_kept_whatever_goes_wrong(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + GROUP):
        tell(draw(seed))
