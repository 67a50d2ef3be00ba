"""Where the outputs of stages are: with the node that made them, and published or not.

A task whose inputs are not where it was told fails, as it would live.
"""

from collections.abc import Collection

from esg.core.messages.commands import PublishData, StartTask
from esg.core.messages.events import StageOutput
from esg.emulator.world import DataOrder

Output = tuple[str, str]
"""Request and stage."""


class Storage:
    def __init__(self) -> None:
        self.kept: dict[str, set[Output]] = {}
        self.published: set[Output] = set()
        self._results: set[Output] = set()

    def missing(self, order: StartTask) -> tuple[StageOutput, ...]:
        here = self.kept.get(order.invoker, set())
        return tuple(
            StageOutput(request=job.request, stage=source.stage)
            for job in order.jobs
            for source in job.inputs
            if source.stage
            and (job.request, source.stage)
            not in (here if source.invoker == order.invoker else self.published)
        )

    def keep(self, order: StartTask, failed: Collection[str]) -> None:
        jobs = [job for job in order.jobs if job.request not in failed]
        outputs = {(job.request, order.stage) for job in jobs}
        results = {(job.request, order.stage) for job in jobs if order.publish or job.publish}
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
