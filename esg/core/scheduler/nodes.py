"""The lives of nodes: they join, report, leave and are lost, with the models on their slices.

The books follow what is: what a node says it runs and has is compared with what it should, and what
differs is stopped, given back, discarded or done again.
"""

from esg.core.estimation.load_times import observe_load
from esg.core.messages.commands import DiscardData, PublishData, StopTask
from esg.core.messages.events import (
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerReported,
    RunningTask,
    SliceInventory,
)
from esg.core.scheduler.books import Books
from esg.core.scheduler.lifecycle import Lifecycle
from esg.core.scheduler.quarantine import Quarantine
from esg.core.scheduler.retries import Retries
from esg.core.scheduler.standing_orders import StandingOrders
from esg.core.scheduler.tasks import Tasks
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Phase
from esg.limits import LAST_TASK_BELIEVED


class Nodes:
    """The nodes of a mesh, as they come and go."""

    def __init__(
        self,
        books: Books,
        lifecycle: Lifecycle,
        tasks: Tasks,
        standing: StandingOrders,
        quarantine: Quarantine,
        retries: Retries,
    ) -> None:
        self._catalog = books.catalog
        self._state = books.state
        self._lifecycle = lifecycle
        self._tasks = tasks
        self._standing = standing
        self._quarantine = quarantine
        self._retries = retries
        self._emit = books.emit
        self._follow_profiles = books.settings.follow_profiles

    def joined(self, now_us: int, event: InvokerJoined) -> None:
        """Compare what is there with the books, and go on from what is."""
        slices = [(part.memory_mb, part.kind) for part in event.slices]
        node = self._state.nodes.get(event.invoker)
        if node is not None and (
            node.vcpus != event.vcpus or [(p.memory_mb, p.kind) for p in node.slices] != slices
        ):
            self.lost(now_us, event.invoker)
            node = None
        if node is None:
            kinds = [part.kind for part in event.slices]
            memories_mb = [part.memory_mb for part in event.slices]
            node = NodeBooks.of(event.invoker, event.vcpus, memories_mb, kinds)
            self._state.add_node(node)
        self._state.health.keep(event.invoker)
        self._state.releases += 1
        self._reconcile(now_us, node, event.running, self._state.tasks_started)
        heard = min(event.latest_task, LAST_TASK_BELIEVED)
        self._state.tasks_started = max(self._state.tasks_started, heard)
        self._forget_unheard_orders(node, event.slices)
        self._take_stock(now_us, node, event.slices)
        self._account_for(event.kept, event.invoker)
        self._publish_again(event.invoker)

    def reported(self, now_us: int, event: InvokerReported) -> None:
        """Compare a known node's inventory with the books; orders may have been under way."""
        node = self._state.nodes.get(event.invoker)
        if node is not None:
            self._reconcile(now_us, node, event.running, event.latest_task)
            self._take_stock(now_us, node, event.slices)
            self._state.releases += 1  # models that came or went may make room

    def leaving(self, invoker: str) -> None:
        """A node is draining: it gets no new work."""
        draining = self._state.health.draining
        if invoker in self._state.nodes and invoker not in draining:
            draining.append(invoker)
            self._standing.recall_on(invoker)

    def lost(self, now_us: int, invoker: str) -> None:
        """A node is gone: what it ran and kept is done again elsewhere, as far as it is needed."""
        if invoker not in self._state.nodes:
            return
        lost = [task for task in self._state.tasks.values() if task.invoker == invoker]
        for task in lost:
            self._tasks.end(task.name, invoker)
        self._state.remove_node(invoker)
        self._state.health.forget(invoker)
        for request in self._state.requests.values():
            self._lifecycle.lose_keeper(request, invoker)
        for task in lost:
            for name in task.requests:
                self._retries.give_back(now_us, task, name, None)
        for request in list(self._state.requests.values()):
            self._lifecycle.resume(request, now_us)

    def instance_ready(self, now_us: int, event: InstanceReady) -> None:
        """A model was loaded, as ordered or not."""
        node = self._state.nodes.get(event.invoker)
        if node is None or not 0 <= event.slice < len(node.slices):
            return
        if self._follow_profiles and event.loading_us:
            again = event.function in node.had
            observe_load(self._state, event.function, event.loading_us, again=again)
        self._found_loaded(node, event.slice, event.function, now_us)
        self._state.releases += 1  # a loaded model can make room, one that is loading cannot

    def instance_gone(self, now_us: int, event: InstanceGone) -> None:
        """A model is not there any more, or never came."""
        node = self._state.nodes.get(event.invoker)
        if node is None or not 0 <= event.slice < len(node.slices):
            return
        resident = node.slices[event.slice].residents.get(event.function)
        node.forget(event.slice, event.function)
        self._state.releases += 1
        if resident is not None and not resident.ready:
            function = self._catalog.functions[event.function]
            self._quarantine.load_failed(node, event.slice, function, now_us)
            self._retries.load_failed(function, event.reason, now_us)

    def _reconcile(
        self, now_us: int, node: NodeBooks, running: tuple[RunningTask, ...], latest_task: int
    ) -> None:
        """Compare what the books say runs there with what does.

        A task that was not ordered is stopped, and keeps what it holds until it has been; one that
        nobody wants any more is told so again, as the order may have been lost.
        """
        there = {found.task for found in running}
        here = [task for task in self._state.tasks.values() if task.invoker == node.invoker]
        for task in here:
            if task.number <= latest_task and task.name not in there:
                self._tasks.end(task.name, node.invoker)
                for request in task.requests:
                    self._retries.give_back(now_us, task, request, None)
        known = {task.name for task in here}
        for found in running:
            if found.task in known:
                self._lifecycle.stop_if_unwanted(found.task)
            else:
                self._emit(StopTask(invoker=node.invoker, task=found.task))
                self._tasks.book_stray(now_us, found.task, node.invoker, found.vcpus, found.slices)

    def _take_stock(
        self, now_us: int, node: NodeBooks, inventory: tuple[SliceInventory, ...]
    ) -> None:
        """Compare which models the books say are loaded with which are."""
        for index, (part, found) in enumerate(zip(node.slices, inventory, strict=False)):
            node.set_usable(index, found.usable)
            for function in list(part.residents):
                if part.residents[function].ready and function not in found.resident:
                    node.forget(index, function)
            for function in found.resident:
                self._found_loaded(node, index, function, now_us)

    def _forget_unheard_orders(
        self, node: NodeBooks, inventory: tuple[SliceInventory, ...]
    ) -> None:
        """A node that (re)joins loads what it says, and what its tasks wait for, but no more."""
        for index, (part, found) in enumerate(zip(node.slices, inventory, strict=False)):
            tasks = map(self._state.tasks.get, (part.ahead, part.holder))
            awaited = [self._tasks.function_of(task) for task in tasks if task and task.requests]
            for function in list(part.residents):
                expected = function in found.loading or function in awaited
                if not part.residents[function].ready and not expected:
                    node.forget(index, function)

    def _found_loaded(self, node: NodeBooks, index: int, function: str, now_us: int) -> None:
        """A model is there: the books follow, even if they had given it up."""
        part = node.slices[index]
        if not part.usable:
            return
        if function not in node.had and function in self._catalog.functions:
            node.had.append(function)
        if function in part.residents:
            node.mark_ready(index, function, now_us)
        elif function in self._catalog.functions:
            memory_mb = self._catalog.functions[function].memory_mb
            if part.memory_free_mb >= memory_mb:
                node.load(index, function, memory_mb, now_us, ready=True)

    def _account_for(self, kept: tuple[str, ...], invoker: str) -> None:
        """What a node keeps goes now, if its request has ended, or when it does."""
        for name in kept:
            request = self._state.requests.get(name)
            if request is None:
                self._emit(DiscardData(invoker=invoker, request=name))
            elif invoker not in request.kept_on:
                request.kept_on.append(invoker)

    def _publish_again(self, invoker: str) -> None:
        """An order to publish may have been lost while the node was away. If someone elsewhere
        waits for what it keeps, it is said again now, otherwise when one will."""
        for request in self._state.requests.values():
            successors = self._catalog.applications[request.application].successors
            for stage, run in request.runs.items():
                if run.keeper == invoker and run.published:
                    if any(request.runs[f].phase is Phase.RUNNING for f in successors[stage]):
                        order = PublishData(invoker=invoker, request=request.name, stage=stage)
                        self._emit(order)
                    elif successors[stage] and not request.all_stages:  # not a result
                        run.published = False
