"""Where the outputs of stages are: with the node that made them, and published or not.

A task whose inputs are not where it was told fails, as it would live.
"""

from collections.abc import Collection

from esg.core.messages.commands import PublishData
from esg.core.messages.events import MissingInput
from esg.core.messages.task_order import Input, Output, TaskOrder
from esg.emulator.world import DataOrder

Stored = tuple[str, str]
"""An output's request and stage."""


class Storage:
    def __init__(self) -> None:
        self.kept: dict[str, set[Stored]] = {}
        self.published: set[Stored] = set()
        self._results: set[Stored] = set()

    def missing(self, order: TaskOrder) -> tuple[MissingInput, ...]:
        return tuple(
            MissingInput(request=job.request, source=source)
            for job in order.jobs
            for source in job.inputs
            if not self._has(order.invoker, job.request, source)
        )

    def _has(self, invoker: str, request: str, source: Input) -> bool:
        """Whether a task on this node finds an input of a request; payloads are always found."""
        if not isinstance(source, Output):
            return True
        local = source.is_local_to(invoker)
        return (request, source.stage) in (self.kept.get(invoker, ()) if local else self.published)

    def keep(self, order: TaskOrder, failed: Collection[str]) -> None:
        jobs = [job for job in order.jobs if job.request not in failed]
        outputs = {(job.request, order.stage) for job in jobs}
        results = {(job.request, order.stage) for job in jobs if job.publish}
        self.kept.setdefault(order.invoker, set()).update(outputs)
        self.published |= results
        self._results |= results

    def obey(self, order: DataOrder) -> None:
        kept = self.kept.get(order.invoker, set())
        if isinstance(order, PublishData):
            self.published |= kept & {(order.request, order.stage)}
        else:
            gone = {output for output in kept if output[0] == order.request}
            kept -= gone
            if order.results:
                self.published -= gone

    def requests_of(self, invoker: str) -> tuple[str, ...]:
        """The requests that a node keeps something of."""
        return tuple(sorted({request for request, _ in self.kept.get(invoker, ())}))

    def forget_node(self, invoker: str) -> None:
        """It is gone, with all it kept."""
        self.kept.pop(invoker, None)

    def expire(self) -> None:
        """Whatever has been published, except results, is gone."""
        self.published &= self._results
