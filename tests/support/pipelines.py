"""Small random pipelines: few configs, small numbers, so that ties are frequent."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Function, Stage
from esg.core.catalog.profile import Prices, Profile
from tests.support.brute_force import from_stage, longest_path

Dag = dict[str, tuple[str, ...]]
Table = dict[Config, tuple[int, int]]

NAMES = "abcdefgh"
KINDS = ("", "3g.40gb")
GRID = [Config(b, c, g, k) for b in (1, 2, 4) for c in (1, 2) for g in (1, 2) for k in KINDS]


@dataclass(frozen=True)
class Pipeline:
    """A DAG in topological order, and per stage a table: config -> (time, cost of a job)."""

    after: Dag
    tables: dict[str, Table]

    def application(self, slo_us: int = 1000) -> Application:
        return Application.of(
            "random",
            [Stage(s, _function(s, self.tables[s]), before) for s, before in self.after.items()],
            slo_us=slo_us,
        )


@dataclass(frozen=True)
class Question:
    """What an engine may be asked about a pipeline."""

    stage: str
    queue: int
    left_us: int
    k: int


def _function(name: str, table: Table) -> Function:
    configs = tuple(sorted(table))
    job_cost = np.array([table[config][1] for config in configs], dtype=np.int64)
    profile = Profile(
        function=name,
        configs=configs,
        time_us=(time_us := np.array([table[config][0] for config in configs], dtype=np.int64)),
        slices_us=time_us,
        after_us=np.zeros_like(time_us),
        task_cost_pusd=job_cost * np.array([config.batch for config in configs], dtype=np.int64),
        job_cost_pusd=job_cost,
        prices=Prices(),
        alone_us=1,
        relative_std=0.0,
        provenance="random",
    )
    return Function(name=name, profile=profile, cold_start_us=0, input_bytes=0, memory_mb=1)


CELLS = st.tuples(st.integers(1, 8), st.integers(0, 6))


def tables(max_configs: int = 8) -> st.SearchStrategy[Table]:
    """Two configs or more of the grid, of each kind there is always one with batch 1; the others do
    not fit."""
    cells = st.dictionaries(st.sampled_from(GRID), CELLS, min_size=2, max_size=max_configs)
    return cells.map(_with_single_jobs)


def _with_single_jobs(table: Table) -> Table:
    """Where a kind has no config with batch 1, its first one becomes one."""
    made = dict(table)
    for kind in KINDS:
        own = sorted(config for config in table if config.kind == kind)
        if own and own[0].batch > 1:
            made[own[0]._replace(batch=1)] = made.pop(own[0])
    return made


@st.composite
def pipelines(draw: st.DrawFn, dags: st.SearchStrategy[Dag], max_configs: int = 8) -> Pipeline:
    after = draw(dags)
    rows = draw(st.lists(tables(max_configs), min_size=len(after), max_size=len(after)))
    return Pipeline(after, dict(zip(after, rows, strict=True)))


@st.composite
def questions(draw: st.DrawFn, pipeline: Pipeline, stage: str | None = None) -> Question:
    """From any stage, unless one is given; budgets from hopeless to more than ever needed."""
    stage = stage or draw(st.sampled_from(sorted(pipeline.after)))
    part = from_stage(pipeline.after, stage)
    fastest, slowest = (
        longest_path(part, {s: end(time for time, _ in pipeline.tables[s].values()) for s in part})
        for end in (min, max)
    )
    return Question(
        stage,
        queue=draw(st.integers(1, 5)),
        left_us=draw(st.integers(fastest - 2, slowest + 2)),
        k=draw(st.integers(1, 10)),
    )


def chains(min_size: int = 1, max_size: int = 3) -> st.SearchStrategy[Dag]:
    sizes = st.integers(min_size, max_size)
    return sizes.map(lambda n: {NAMES[i]: tuple(NAMES[i - 1 : i]) for i in range(n)})


@st.composite
def split_joins(draw: st.DrawFn, max_stages: int = 6, *, all_to_all: bool = False) -> Dag:
    """Nested splits and joins below one root. A split without a join leaves several sinks.

    Grown from the root: a new stage either comes right after another and takes over all that
    followed it, or runs beside it, between the same stages. Between the same two stages only,
    unless `all_to_all`: then a join may at once be a split, without a stage in the middle.
    """
    after: dict[str, list[str]] = {"a": []}
    for new in NAMES[1 : draw(st.integers(1, max_stages))]:
        old = draw(st.sampled_from(sorted(after)))
        followers = [stage for stage in after if old in after[stage]]
        alone = len(after[old]) == 1 and len(followers) <= 1
        if after[old] and (alone or all_to_all) and draw(st.booleans()):
            after[new] = list(after[old])
            for follower in followers:
                after[follower].append(new)
        else:
            for follower in followers:
                after[follower][after[follower].index(old)] = new
            after[new] = [old]
    return in_order({stage: tuple(before) for stage, before in after.items()})


@st.composite
def any_dags(draw: st.DrawFn, max_stages: int = 6) -> Dag:
    """One root; every other stage waits for some of those before it. Names tell no order."""
    names = draw(st.permutations(NAMES[: draw(st.integers(1, max_stages))]))
    return {
        stage: tuple(draw(st.lists(st.sampled_from(names[:i]), min_size=1, unique=True)))
        if i
        else ()
        for i, stage in enumerate(names)
    }


def in_order(after: Dag) -> Dag:
    ordered: Dag = {}
    while len(ordered) < len(after):
        ordered |= {s: b for s, b in after.items() if s not in ordered and ordered.keys() >= {*b}}
    return ordered


def paths(after: Dag) -> list[tuple[str, ...]]:
    """All ways from the root to a sink."""
    root = next(iter(after))
    found: list[tuple[str, ...]] = []
    open_paths: list[tuple[str, ...]] = [(root,)]
    while open_paths:
        path = open_paths.pop()
        onward = [(*path, stage) for stage, before in after.items() if path[-1] in before]
        open_paths += onward
        if not onward:
            found.append(path)
    return found
