"""Functions that are being reloaded on a node: their code and model are replaced between two tasks.

    ReloadFunction      no task of it begins any more; those that run end with the old ones
    ReplaceModel        when none runs and no slice is loading its model: the node replaces both,
                        or keeps the old ones if the new ones are no good
    FunctionReloaded    the tasks that came meanwhile begin

The model stays resident all the time, so a scheduler sees no more of it than tasks that wait.
"""

from collections.abc import Iterable, Mapping, Sequence

from esg.core.messages.node import ReplaceModel
from esg.core.pool.slices import LOADING, PoolSlice, Running


class Reloads(dict[str, bool]):
    """The functions that are being reloaded, and whether their replacement was ordered."""

    def begin(self, function: str) -> None:
        self.setdefault(function, False)

    def end(self, function: str) -> None:
        self.pop(function, None)

    def due(
        self, slices: Sequence[PoolSlice], running: Mapping[str, Running]
    ) -> Iterable[ReplaceModel]:
        """What can be replaced now; each is ordered once."""
        for function, ordered in self.items():
            if not ordered and not _is_busy(function, slices, running):
                self[function] = True
                having = [index for index, part in enumerate(slices) if part.has(function)]
                yield ReplaceModel(function=function, slices=tuple(having))


def _is_busy(function: str, slices: Sequence[PoolSlice], running: Mapping[str, Running]) -> bool:
    executed = any(
        task.order.function == function and task.executing_us is not None
        for task in running.values()
    )
    models = (part.models.get(function) for part in slices)
    return executed or any(model is not None and model.state is LOADING for model in models)
