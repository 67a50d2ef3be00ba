"""Search: which configs for the rest of a pipeline? Two engines with one interface.

`astar` is the paper's ESG_1Q: best-first search with dual-blade pruning over one function group.
`frontier` is ours: it looks the answer up in Pareto frontiers that were built once per application,
for the whole pipeline. On the same chain both return plans of the same cost, which tests prove.
"""

from esg.core.catalog.model import Application
from esg.core.search.astar import AStar
from esg.core.search.frontier import Frontier
from esg.core.search.plan import Answer, Engine, Plan, Step
from esg.errors import Rejected
from esg.suggest import did_you_mean

ENGINES = ("frontier", "astar")


def engine(name: str, application: Application, *, group_size: int) -> Engine:
    """The named engine, ready to plan for one application."""
    match name:
        case "astar":
            return AStar(application, group_size)
        case "frontier":
            return Frontier(application)
        case _:
            raise Rejected(did_you_mean("engine", name, ENGINES))


__all__ = ["ENGINES", "Answer", "Engine", "Plan", "Step", "engine"]
