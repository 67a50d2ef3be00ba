"""Where two catalogs differ: what the same config of the same function takes in each."""

from dataclasses import dataclass
from math import log

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog


@dataclass(frozen=True, slots=True)
class Difference:
    """Times in microseconds; None where a config is infeasible, or was not measured."""

    function: str
    config: Config
    one_us: int | None
    other_us: int | None

    @property
    def ratio(self) -> float | None:
        """How many times as long it takes in the other."""
        return None if not self.one_us or not self.other_us else self.other_us / self.one_us


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differences` have the largest first, of configs that both have; then those that one has."""

    differences: list[Difference]
    only_one: list[str]
    only_other: list[str]


def compare(one: Catalog, other: Catalog) -> Comparison:
    found: list[Difference] = []
    for name in one.functions.keys() & other.functions.keys():
        profiles = one.functions[name].profile, other.functions[name].profile
        times = [dict(zip(p.configs, p.time_us.tolist(), strict=True)) for p in profiles]
        found += [
            Difference(name, config, times[0].get(config), times[1].get(config))
            for config in times[0].keys() | times[1].keys()
        ]
    return Comparison(
        sorted(found, key=_rank),
        sorted(one.functions.keys() - other.functions.keys()),
        sorted(other.functions.keys() - one.functions.keys()),
    )


def _rank(difference: Difference) -> tuple[bool, float, str, Config]:
    ratio = difference.ratio
    distance = 0.0 if ratio is None else -abs(log(ratio))
    return ratio is None, distance, difference.function, difference.config
