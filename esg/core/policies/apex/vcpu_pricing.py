"""vCPU pricing: vCPUs count at higher prices the fewer of them are left.

A vCPU costs a twentieth of a vGPU, so the cheapest configs are generous with them: three or four to
a slice, where the paper's nodes have 16 for 7 slices. A full node then has idle slices that cannot
be used, jobs get configs that suit none of them, and deadlines are missed. Prices that rise with
the share in use keep that from happening: every plan gives up what it can spare most easily.
"""

from bisect import bisect_right
from dataclasses import replace

from esg.core.catalog.model import Application, Catalog
from esg.core.catalog.profile import Prices, Profile

LEVELS = ((0.0, 1.0), (0.5, 1.5), (0.8, 3.0))
"""From which share of vCPUs in use on they count how many times their price. Found by trial."""

_SHARES = [share for share, _ in LEVELS]


def level(vcpus: int, free: int) -> int:
    """Which of the levels holds, if so many of all vCPUs are free.

    >>> level(16, 8), level(32, 24), level(16, 2)  # half, a quarter and seven eighths are in use
    (1, 0, 2)
    """
    used = 1 - free / vcpus if vcpus else 0.0
    return bisect_right(_SHARES, used) - 1


class RepricedProfiles:
    """Profiles where vCPUs cost a multiple of their price, each worked out once for all the
    applications of a catalog."""

    def __init__(self) -> None:
        self._prices = Prices()
        self._made: dict[tuple[Profile, float], Profile] = {}

    def keep(self, catalog: Catalog) -> None:
        """Forget what another catalog has not."""
        known = {function.profile for function in catalog.functions.values()}
        same = catalog.prices == self._prices
        self._prices = catalog.prices
        self._made = {key: p for key, p in self._made.items() if same and key[0] in known}

    def of(self, application: Application, factor: float) -> Application:
        """An application where a vCPU costs so many times its price."""
        if factor == 1:
            return application
        return application.with_profiles(lambda profile: self._repriced(profile, factor))

    def _repriced(self, profile: Profile, factor: float) -> Profile:
        made = self._made.get((profile, factor))
        if made is None:
            dear = replace(self._prices, vcpu_usd_per_hour=self._prices.vcpu_usd_per_hour * factor)
            made = self._made[profile, factor] = profile.priced(dear)
        return made
