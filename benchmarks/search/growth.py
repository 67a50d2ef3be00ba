"""What it takes to build an engine, and how that and a decision grow with the question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from benchmarks.search.measure import Cell, Contender, compare, measure, undisturbed
from benchmarks.search.questions import (
    GRIDS,
    SETTINGS,
    chain,
    diamond,
    questions,
    regridded,
    warm_up,
)
from esg.core.catalog.model import Application, Catalog
from esg.core.metrics import percentiles
from esg.core.search.astar import AStar
from esg.core.search.frontier import Frontier

GROWTH_K = 5
GROWTH_SETTING = "moderate"
MAX_STAGES = 8
TOO_SLOW_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Build:
    """Frontier and quotas, built once per application."""

    application: str
    stages: int
    frontier_ns: float
    astar_ns: float
    corners_first: int
    corners_all: int


@dataclass(frozen=True, slots=True)
class Growth:
    """One size of question; an astar that was too slow before is not asked again."""

    axis: str
    size: int
    build: Build
    frontier_p50_ns: float
    astar_p50_ns: float | None
    astar_max_ns: int | None
    astar_effort: float | None
    compared: int


def builds(catalog: Catalog, repeats: int) -> list[Build]:
    return [
        build(application, repeats)
        for application in (*catalog.applications.values(), diamond(catalog))
    ]


def build(application: Application, repeats: int) -> Build:
    """The median time of some builds, and the corners of what was built."""
    frontier = Frontier(application)
    corners = [frontier.corners(stage) for stage in application.stages]
    return Build(
        application=application.name,
        stages=len(application.stages),
        frontier_ns=_median_ns(lambda: Frontier(application), repeats),
        astar_ns=_median_ns(lambda: AStar(application, len(application.stages)), repeats),
        corners_first=corners[0],
        corners_all=sum(corners),
    )


def _median_ns(action: Callable[[], object], repeats: int) -> float:
    took_ns = []
    with undisturbed():
        for _ in range(repeats):
            start = perf_counter_ns()
            action()
            took_ns.append(perf_counter_ns() - start)
    return percentiles(took_ns, 50)[0]


def growth(
    catalog: Catalog, decisions: int, repeats: int, advance: Callable[[str], None]
) -> list[Growth]:
    """Chains of 1 to 8 stages of 256 configs; the five-stage application with 16 to 1024."""
    functions = list(catalog.functions.values())
    chains = [
        (length, chain(f"chain of {length}", functions, length))
        for length in range(1, MAX_STAGES + 1)
    ]
    five = catalog.application("expanded-image-classification")
    finer = [(size, regridded(five, grid, catalog.prices)) for size, grid in GRIDS.items()]
    return [
        *_grown("stages", chains, decisions, repeats, advance),
        *_grown("configs", finer, decisions, repeats, advance),
    ]


def growth_steps() -> int:
    return MAX_STAGES + len(GRIDS)


def _grown(
    axis: str,
    sizes: Sequence[tuple[int, Application]],
    decisions: int,
    repeats: int,
    advance: Callable[[str], None],
) -> list[Growth]:
    grown: list[Growth] = []
    too_slow = False
    for size, application in sizes:
        fast = _decide(Contender(name="frontier", build=Frontier), application, decisions)
        slow = None
        if not too_slow:
            slow = _decide(Contender(name="astar", build=_whole_astar), application, decisions)
            too_slow = max(slow.ns) > TOO_SLOW_NS
        grown.append(
            Growth(
                axis=axis,
                size=size,
                build=build(application, repeats),
                frontier_p50_ns=fast.p50_ns,
                astar_p50_ns=slow.p50_ns if slow else None,
                astar_max_ns=max(slow.ns) if slow else None,
                astar_effort=slow.mean_effort if slow else None,
                compared=compare(slow, fast) if slow else 0,
            )
        )
        advance(f"growth, {size} {axis}")
    return grown


def _whole_astar(application: Application) -> AStar:
    return AStar(application, len(application.stages))


def _decide(contender: Contender, application: Application, decisions: int) -> Cell:
    """First-stage questions only: they are the ones that grow."""
    scale = SETTINGS[GROWTH_SETTING]
    # with no time left, astar prepares its columns but need not search, which could take long
    warm_scale = 0.0 if contender.name == "astar" else scale
    cell = Cell(
        subject=application.name,
        contender=contender.name,
        setting=GROWTH_SETTING,
        k=GROWTH_K,
    )
    return measure(
        cell,
        contender,
        questions([application], scale, decisions, first_share=1.0),
        warm_up([application], warm_scale),
        stop_after_ns=TOO_SLOW_NS,
    )
