"""Task orders: what a node is to run, with which resources, for whom, on which inputs.

What the scheduler records of its decision besides is no concern of the node's: see
`commands.StartTask`.
"""

from esg.core.catalog.config import Config
from esg.core.messages.codec import Message


class Payload(Message, frozen=True, kw_only=True, tag=True):
    """The request's own payload as an input; `key` is what it is stored under in the remote store.

    A scheduler does not know the key: a live controller fills it in.
    """

    key: str = ""


class InlinePayload(Payload, frozen=True, kw_only=True, tag=True):
    """A small payload that came with its order. Only a live controller makes one, when an order is
    sent: it is never part of a decision, nor of what is remembered of one."""

    content: bytes


class Output(Message, frozen=True, kw_only=True, tag=True):
    """What an earlier stage made, as an input. Nobody keeps what has outlived its invoker, but it
    may be in the remote store."""

    stage: str
    invoker: str

    def is_local_to(self, invoker: str) -> bool:
        """Whether a task on this invoker finds it in its own store. From everywhere else it comes
        through the remote store."""
        return self.invoker == invoker


Input = Payload | Output


class JobOrder(Message, frozen=True, kw_only=True):
    """One request's work in a task. With `publish` its output is a result, and goes to the remote
    store at once."""

    request: str
    inputs: tuple[Input, ...]
    publish: bool = False


class AwaitedJob(JobOrder, frozen=True, kw_only=True):
    """A job whose result somebody waits for. With at most `bring_bytes` it comes along with the
    report, and is stored nowhere; a larger one is stored, but need not outlive the machine's
    memory. Only a live controller makes one, when an order is sent, as with `InlinePayload`."""

    bring_bytes: int = 0


class TaskOrder(Message, frozen=True, kw_only=True):
    """A batch of jobs, to be run as one invocation. With `keep` later stages read the outputs: they
    stay on the node.

    `then` is a standing order: what the node goes on with by itself, for the same requests and on
    what this task held, if all went well and no more than `then.within_us` has passed since the
    node began with the first of them. Otherwise the scheduler decides anew.

    A `phased` task gives back what it does not need any more (see `catalog.phases`), and waits for
    vCPUs and slices that others are not done with; it may wait for `spare_us` and all its requests
    can still be in time, if nothing else goes wrong. Any other finds all of them free, or fails.
    """

    task: str
    invoker: str
    stage: str
    function: str
    config: Config
    slices: tuple[int, ...]
    jobs: tuple[JobOrder, ...]
    keep: bool
    predicted_us: int
    then: "TaskOrder | None" = None
    within_us: int = 0  # of a standing order
    phased: bool = False
    spare_us: int = 0

    def count_inputs(self) -> tuple[int, int, int]:
        """How many inputs are payloads, outputs in the node's own store, and outputs from elsewhere
        (see `Output.is_local_to`, which would be called too often here)."""
        payloads = local = remote = 0
        invoker = self.invoker
        for job in self.jobs:
            for source in job.inputs:
                if type(source) is not Output:
                    payloads += 1
                elif source.invoker == invoker:
                    local += 1
                else:
                    remote += 1
        return payloads, local, remote
