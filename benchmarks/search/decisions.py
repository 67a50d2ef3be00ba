"""The decisions that are timed: who is asked about which applications, how often, and the check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.search.aims import (
    ASTAR_3,
    ASTAR_4,
    ASTAR_5,
    BRUTE_FORCE,
    DIAMOND,
    FIVE,
    FRONTIER,
    LISTING,
    LOOK_UP,
    LOOPS,
    THREE,
)
from benchmarks.search.measure import Cell, Contender, compare, measure
from benchmarks.search.questions import (
    KS,
    MAX_QUEUE,
    SETTINGS,
    Question,
    diamond,
    questions,
    warm_up,
)
from benchmarks.search.reference import BruteForce, Listing, PlainLoops, SplitJoin
from esg.core.catalog.model import Application, Catalog
from esg.core.search import Answer, engine
from esg.core.search.frontier import Frontier

Advance = Callable[[str], None]


class LookUp:
    """What policy esg does: the cheapest plan is looked up, and searched for only if there is none
    in time. The others are needed only when there is no room for it."""

    def __init__(self, application: Application) -> None:
        self._frontier = Frontier(application)

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Answer:
        best = self._frontier.cheapest(stage, queue=queue, left_us=left_us)
        if best is None:
            return self._frontier.search(stage, queue=queue, left_us=left_us, k=k)
        return Answer((best,), True, left_us, 1)


PLAIN_LOOPS = Contender(name=LOOPS, build=PlainLoops, best_only=True, decisions=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is asked: questions per cell for engines, for references, for growth; builds."""

    questions: int
    listings: int
    brute_forces: int
    reference_ks: tuple[int, ...]
    loop_settings: tuple[str, ...]
    growth_questions: int
    build_repeats: int


FULL = Scope(
    questions=300,
    listings=3,
    brute_forces=6,
    reference_ks=KS,
    loop_settings=tuple(SETTINGS),
    growth_questions=20,
    build_repeats=9,
)
QUICK = Scope(
    questions=30,
    listings=2,
    brute_forces=2,
    reference_ks=(5,),
    loop_settings=("moderate",),
    growth_questions=3,
    build_repeats=3,
)


@dataclass(frozen=True, slots=True)
class Subject:
    """Applications that are asked about together, and who answers; the first is `frontier`."""

    name: str
    applications: tuple[Application, ...]
    contenders: tuple[Contender, ...]


def subjects(catalog: Catalog, scope: Scope) -> list[Subject]:
    of_three = tuple(app for app in catalog.applications.values() if len(app.stages) == 3)
    of_five = catalog.application("expanded-image-classification")
    frontier = Contender(name=FRONTIER, build=Frontier)
    look_up = Contender(name=LOOK_UP, build=LookUp, best_only=True, ks=KS[:1])
    brute_force = partial(Contender, decisions=scope.brute_forces, ks=scope.reference_ks)
    return [
        Subject(
            THREE,
            of_three,
            (
                frontier,
                look_up,
                _astar(ASTAR_3, 3, whole=True),
                Contender(
                    name=LISTING,
                    build=Listing,
                    best_only=True,
                    decisions=scope.listings,
                    ks=scope.reference_ks,
                ),
                brute_force(name=BRUTE_FORCE, build=BruteForce),
            ),
        ),
        Subject(
            FIVE,
            (of_five,),
            (
                frontier,
                look_up,
                _astar(ASTAR_3, 3, whole=False),
                _astar(ASTAR_4, 4, whole=False),
                _astar(ASTAR_5, 5, whole=True),
            ),
        ),
        Subject(
            DIAMOND,
            (diamond(catalog),),
            (
                frontier,
                _astar(ASTAR_3, 3, whole=False),
                brute_force(name=BRUTE_FORCE, build=SplitJoin),
            ),
        ),
    ]


def _astar(name: str, group_size: int, *, whole: bool) -> Contender:
    return Contender(name=name, build=partial(engine, "astar", group_size=group_size), whole=whole)


def cell_count(asked: Sequence[Subject], scope: Scope) -> int:
    per_setting = sum(
        len(contender.ks or KS) for subject in asked for contender in subject.contenders
    )
    return len(SETTINGS) * per_setting + len(scope.loop_settings)


def decide(subject: Subject, scope: Scope, advance: Advance) -> tuple[list[Cell], int]:
    """All cells of a subject, and how many answers were compared with frontier's."""
    cells: list[Cell] = []
    compared = 0
    for setting, scale in SETTINGS.items():
        asked = questions(subject.applications, scale, scope.questions)
        warming = warm_up(subject.applications, scale)
        for k in KS:
            frontier: Cell | None = None
            for contender in subject.contenders:
                if contender.ks and k not in contender.ks:
                    continue
                cell = measure(
                    _cell(subject.name, contender, setting, k),
                    contender,
                    contender.picks(asked),
                    warming,
                )
                frontier = frontier or cell
                if contender.whole and cell is not frontier:
                    compared += compare(cell, frontier, best_only=contender.best_only)
                cells.append(cell)
                advance(f"{subject.name}, {setting}, k = {k}, {contender.name}")
    return cells, compared


def _cell(subject: str, contender: Contender, setting: str, k: int) -> Cell:
    return Cell(subject=subject, contender=contender.name, setting=setting, k=k)


def plain_loops(catalog: Catalog, scope: Scope, advance: Advance) -> tuple[list[Cell], int]:
    """One question per setting with a full queue, so that it really is 256^3 combinations."""
    application = next(app for app in catalog.applications.values() if len(app.stages) == 3)
    frontier = Contender(name=FRONTIER, build=Frontier)
    cells = []
    compared = 0
    for setting in scope.loop_settings:
        left_us = round(SETTINGS[setting] * application.alone_us)
        asked = [Question(application, application.root, MAX_QUEUE, left_us)]
        cell = measure(_cell(THREE, PLAIN_LOOPS, setting, 1), PLAIN_LOOPS, asked, [])
        truth = measure(_cell(THREE, frontier, setting, 1), frontier, asked, [])
        compared += compare(cell, truth, best_only=True)
        cells.append(cell)
        advance(f"{THREE}, {setting}, {LOOPS}")
    return cells, compared
