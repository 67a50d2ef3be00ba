"""What the search is meant to achieve, with what was measured; and the paper's own figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.search.measure import Cell, Decision
from benchmarks.search.questions import SETTINGS

THREE, FIVE, DIAMOND = "three stages", "five stages", "diamond"
FRONTIER = "frontier"
LOOK_UP = "look-up"
ASTAR_3, ASTAR_4, ASTAR_5 = "astar, group 3", "astar, group 4", "astar, group 5"
LISTING, BRUTE_FORCE, LOOPS = "paper's listing", "brute force", "plain loops"

ASTAR_AIM_NS = 10_000_000
FRONTIER_AIM_NS = 50_000
RATIO_AIM = 100


@dataclass(frozen=True, slots=True)
class Aim:
    """One figure to reach: `measured` in the unit of `limit`, the worst of all settings."""

    text: str
    unit: str
    limit: float
    measured: float
    by_setting: dict[str, float]
    reached: bool


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure the paper reports, on its hardware, beside ours on this machine."""

    text: str
    paper: str
    ours_ns: list[float]
    note: str


class Cells:
    """The measured cells, by what they are about."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._by_key = {(c.subject, c.contender, c.setting, c.k): c for c in cells}

    def __call__(self, subject: str, contender: str, setting: str, k: int) -> Cell:
        return self._by_key[subject, contender, setting, k]

    def find(self, subject: str, contender: str, setting: str, k: int) -> Cell | None:
        return self._by_key.get((subject, contender, setting, k))


def aims(cells: Cells) -> Iterator[Aim]:
    for k in (5, 80):
        for subject in (THREE, FIVE):
            yield _at_most(
                f"astar, groups of 3: p99 < 10 ms, {subject}, k = {k}",
                ASTAR_AIM_NS,
                {s: cells(subject, ASTAR_3, s, k).p99_ns for s in SETTINGS},
            )
    for k in (5, 80):
        yield _at_most(
            f"frontier: p50 <= 50 us, five stages, k = {k}",
            FRONTIER_AIM_NS,
            {s: cells(FIVE, FRONTIER, s, k).p50_ns for s in SETTINGS},
        )
    pairs = {
        s: [cells(FIVE, name, s, 5).only(_at_first) for name in (ASTAR_5, FRONTIER)]
        for s in SETTINGS
    }
    yield _at_least(
        "frontier >= 100x faster than astar: p50, five stages",
        {s: slow.p50_ns / fast.p50_ns for s, (slow, fast) in pairs.items()},
    )
    yield _at_least(
        "the same, only of questions that have an answer in time",
        {
            s: slow.only(_feasible).p50_ns / fast.only(_feasible).p50_ns
            for s, (slow, fast) in pairs.items()
        },
    )
    yield _at_least(
        "the same, mean over all questions",
        {s: slow.mean_ns / fast.mean_ns for s, (slow, fast) in pairs.items()},
    )


def _at_first(decision: Decision) -> bool:
    return decision.question.is_first


def _feasible(decision: Decision) -> bool:
    return decision.feasible


def _at_most(text: str, limit_ns: float, by_setting: dict[str, float]) -> Aim:
    worst = max(by_setting.values())
    return Aim(text, "ns", limit_ns, worst, by_setting, worst <= limit_ns)


def _at_least(text: str, by_setting: dict[str, float]) -> Aim:
    worst = min(by_setting.values())
    return Aim(text, "times", RATIO_AIM, worst, by_setting, worst >= RATIO_AIM)


def paper_figures(cells: Cells) -> list[PaperFigure]:
    """k = 5 where the paper does not say; ours are the worst setting unless the note says more."""
    loops = [cell for s in SETTINGS if (cell := cells.find(THREE, LOOPS, s, 1))]
    brute = [cells(THREE, BRUTE_FORCE, s, 5) for s in SETTINGS]
    return [
        PaperFigure(
            "brute force, 256 configs each",
            "7258 ms",
            [max(cell.p99_ns for cell in loops), max(cell.p99_ns for cell in brute)],
            "plain loops, numpy; slowest",
        ),
        PaperFigure(
            "groups of 3",
            "< 10 ms",
            [max(cells(THREE, ASTAR_3, s, 5).p99_ns for s in SETTINGS)],
            "astar, three stages, p99",
        ),
        PaperFigure(
            "groups of 4",
            "1201 ms",
            [max(cells(FIVE, ASTAR_4, s, 5).p99_ns for s in SETTINGS)],
            "astar, five stages, p99",
        ),
        PaperFigure(
            "k from 1 to 80, average",
            "3 -> 8 ms",
            [cells(THREE, ASTAR_3, "strict", k).mean_ns for k in (1, 80)],
            "astar, three stages, strict",
        ),
    ]
