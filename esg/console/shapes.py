"""The shape of an application's DAG, as text."""

from esg.console.formatting import joined
from esg.core.catalog.dag import Parallel, Series, Tangle
from esg.core.catalog.model import Application


def shape_text(application: Application) -> str:
    """The DAG on one line: `deblur -> (left | right) -> classification`."""
    return _series_text(application.series, application)


def _series_text(series: Series, application: Application) -> str:
    blocks = []
    for block in series:
        match block:
            case str():
                blocks.append(block)
            case Parallel():
                branches = (_series_text(branch, application) for branch in block.branches)
                blocks.append(f"({' | '.join(branches)})")
            case Tangle():
                blocks.append(_tangle_text(block, application))
    return " -> ".join(blocks)


def _tangle_text(tangle: Tangle, application: Application) -> str:
    """Stages that no row of branches describes: each with those of them that it waits for."""
    stages = []
    for stage in tangle.stages:
        inside = [name for name in application.stages[stage].after if name in tangle.stages]
        stages.append(f"{stage} after {joined(inside)}" if inside else stage)
    return f"[{'; '.join(stages)}]"
