"""What a cluster could carry at best: a linear program over plans, solved by column generation.

Requests are a fluid: so many per second of each application with each plan. Whatever a scheduler
does, the work of a second must fit into the vCPUs of a second and into the slices of each kind, and
nobody does better than with full batches, without waiting, on whatever slices there are. Where all
plans of a pipeline keep the deadline by the profiles, that bounds every policy.

The linear program knows some plans, and its duals are prices: how much more could be carried with
one more vCPU, or slice of a kind. A plan that is cheaper at these prices than what its requests are
worth improves it; the search looks for one among all plans, and when there is none, the answer is
exact. Prices of any step give a bound that holds, too (weak duality), so that an answer says what
is proved, not what the solver believes.

Caveats: profiled times, without spread; for pipelines that are not series-parallel the search
splits the time of the tangle by fixed shares, so the bound is that of plans which do, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from esg.core.catalog.model import Application
from esg.core.search.plan import Step
from esg.emulator.sizing.plan_columns import Column, Floats, PlanColumns, Resources
from esg.errors import Bug

CLOSE = 1e-7
"""How far apart, relatively, what is reached and what is proved may be in the end."""

MOST_ROUNDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """So many requests per second of an application with a plan."""

    application: str
    steps: tuple[Step, ...]
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FluidAnswer:
    """What is possible: `bound` is proved, `plans` reach it (but for rounding).

    `prices` are its duals: what one more vCPU, or slice of each kind, adds to it (or saves, of a
    cost). `bound` is at most `constant` plus the resources at these prices, for any amount of them.
    """

    bound: float
    constant: float
    prices: Resources
    plans: tuple[Used, ...]

    def by_application(self) -> dict[str, float]:
        """Requests per second of each."""
        found: dict[str, float] = {}
        for used in self.plans:
            found[used.application] = found.get(used.application, 0.0) + used.per_s
        return found


class FluidModel:
    """Applications by their weights, on slices of some kinds. Plans that were found are kept from
    one question to the next. `mix` has what an application is called, too."""

    def __init__(self, mix: Mapping[Application, float], kinds: Sequence[str]) -> None:
        total = sum(mix.values())
        self.kinds = tuple(kinds)
        self._names = [application.name for application in mix]
        self._shares = np.array([weight / total for weight in mix.values()])
        self._plans = PlanColumns(list(mix), self.kinds)
        self._columns: list[Column] = []
        self._known: set[tuple[int, tuple[Step, ...]]] = set()

    @property
    def unserved(self) -> list[str]:
        """The applications whose deadline no plan keeps."""
        return [name for n, name in enumerate(self._names) if not self._plans.served[n]]

    def most_per_s(self, resources: Resources) -> FluidAnswer:
        """The highest rate at which all can be in time, in the given shares."""
        have = resources.vector(self.kinds)
        if self.unserved:
            return self._nothing()

        def solve() -> _Solved:
            takes, owner = self._table()
            count = len(self._columns)
            # the last variable is the rate
            rows = np.zeros((len(self._names), count + 1))
            rows[owner, np.arange(count)] = 1
            rows[:, -1] = -self._shares
            solved = linprog(
                [*np.zeros(count), -1.0],
                A_ub=np.hstack([takes, np.zeros((len(have), 1))]),
                b_ub=have,
                A_eq=rows,
                b_eq=np.zeros(len(self._names)),
            )
            return _Solved(-solved.fun, -solved.ineqlin.marginals, solved.x[:-1])

        def bound(prices: Floats, least: Floats) -> tuple[float, float, Floats]:
            per_request = float(self._shares @ least)
            if per_request <= 0:
                return np.inf, 0.0, prices
            return float(prices @ have) / per_request, 0.0, prices / per_request

        return self._generated(have, solve, bound)

    def most_in_time(self, resources: Resources, per_s: float) -> FluidAnswer:
        """How many requests per second can be in time, of so many that come in the given shares;
        whichever they are."""
        have, come = resources.vector(self.kinds), per_s * self._shares

        def solve() -> _Solved:
            takes, owner = self._table()
            rows = np.zeros((len(self._names), len(self._columns)))
            rows[owner, np.arange(len(self._columns))] = 1
            solved = linprog(
                -np.ones(len(self._columns)),
                A_ub=np.vstack([takes, rows]),
                b_ub=np.concatenate([have, come]),
            )
            return _Solved(-solved.fun, -solved.ineqlin.marginals[: len(have)], solved.x)

        def bound(prices: Floats, least: Floats) -> tuple[float, float, Floats]:
            constant = float(come @ np.maximum(0.0, 1.0 - least))
            return constant + float(prices @ have), constant, prices

        if len(self.unserved) == len(self._names):
            return self._nothing()
        return self._generated(have, solve, bound)

    def least_cost(self, resources: Resources, per_s: float, paid: Resources) -> FluidAnswer | None:
        """What it costs at least to have so many requests per second in time, in dollars per hour,
        where what tasks hold costs so many dollars per hour; None if they cannot be."""
        have, come = resources.vector(self.kinds), per_s * self._shares
        if self.most_per_s(resources).bound < per_s * (1 + CLOSE):
            return None
        pay = paid.vector(self.kinds)

        def solve() -> _Solved:
            takes, owner = self._table()
            rows = np.zeros((len(self._names), len(self._columns)))
            rows[owner, np.arange(len(self._columns))] = 1
            solved = linprog(pay @ takes, A_ub=takes, b_ub=have, A_eq=rows, b_eq=come)
            return _Solved(-solved.fun, -solved.ineqlin.marginals, solved.x)

        def bound(prices: Floats, least: Floats) -> tuple[float, float, Floats]:
            constant = -float(come @ least)
            return constant + float(prices @ have), constant, prices

        found = self._generated(have, solve, bound, pay)
        return FluidAnswer(
            bound=-found.bound, constant=-found.constant, prices=found.prices, plans=found.plans
        )

    def _generated(
        self,
        have: Floats,
        solve: "Callable[[], _Solved]",
        bound: Callable[[Floats, Floats], tuple[float, float, Floats]],
        paid: Floats | float = 0.0,
    ) -> FluidAnswer:
        """Columns until no further one helps. What is sought is the most of something: `solve` has
        it with the columns that there are, `bound` what is proved by prices and by what the
        cheapest plans cost at them, with what is `paid` besides."""
        if not self._columns:
            self._add(1.0 / np.maximum(have, 1e-3))
        best, best_bound = None, np.inf
        for _ in range(MOST_ROUNDS):
            solved = solve()
            prices = np.maximum(0.0, solved.prices)
            found = self._plans.cheapest(prices + paid)
            least = np.array(
                [np.inf if one is None else one.takes @ (prices + paid) for one in found]
            )
            proved = bound(prices, least)
            if proved[0] < best_bound:
                best_bound, best = proved[0], proved
            new = self._taken_over(found)
            if not new or best_bound - solved.value <= CLOSE * abs(solved.value):
                break
        else:
            raise Bug(f"a linear program over plans has no end after {MOST_ROUNDS} rounds")
        assert best is not None
        total, constant, per_unit = best
        return FluidAnswer(
            bound=total,
            constant=constant,
            prices=self._resources(per_unit),
            plans=tuple(
                Used(application=self._names[c.application], steps=c.steps, per_s=float(n))
                for c, n in zip(self._columns, solved.plans, strict=False)
                if n > CLOSE
            ),
        )

    def _table(self) -> tuple[Floats, Floats]:
        takes = np.array([column.takes for column in self._columns]).T
        return takes, np.array([column.application for column in self._columns])

    def _add(self, prices: Floats) -> None:
        self._taken_over(self._plans.cheapest(prices))

    def _taken_over(self, found: Sequence[Column | None]) -> bool:
        """Whether any of these was new."""
        before = len(self._columns)
        for column in found:
            if column is not None and (column.application, column.steps) not in self._known:
                self._known.add((column.application, column.steps))
                self._columns.append(column)
        return len(self._columns) > before

    def _resources(self, prices: Floats) -> Resources:
        vcpus, *slices = prices.tolist()
        return Resources(vcpus=vcpus, slices=dict(zip(self.kinds, slices, strict=True)))

    def _nothing(self) -> FluidAnswer:
        none = self._resources(np.zeros(1 + len(self.kinds)))
        return FluidAnswer(bound=0.0, constant=0.0, prices=none, plans=())


@dataclass(frozen=True, slots=True)
class _Solved:
    """What the columns that are known reach: value, duals of the resources, rate of each plan."""

    value: float
    prices: Floats
    plans: Floats
