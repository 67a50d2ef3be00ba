"""Effects: what the shell wants done in the world after an event, as plain values.

Orders to invokers, refusals of requests and corrections of profiles are effects as they are. The
live controller performs them, in order; a replay drops them, because they were performed then.
"""

from esg.controller.requests.request_log import Outputs, RequestRecord
from esg.core.messages.codec import Message
from esg.core.messages.commands import (
    AnswerRequest,
    CorrectProfiles,
    InvokerOrder,
    RefuseRequest,
)
from esg.core.messages.events import InvokerJoined
from esg.core.messages.task_order import TaskOrder
from esg.protos import model_v1_pb2 as model


class ConfirmJoin(Message, frozen=True, kw_only=True):
    """The scheduler has compared its books with this inventory: orders may go there."""

    event: InvokerJoined


class TellAccepted(Message, frozen=True, kw_only=True):
    """Tell the followers of a request that it is admitted."""

    request: str
    record: RequestRecord


class TellProgress(Message, frozen=True, kw_only=True):
    """Tell the watchers of a task's requests that it has started or finished.

    `at_us` has the time since the arrival of each request that is under way.
    """

    order: TaskOrder
    finished: bool
    at_us: dict[str, int]


class TellPayloadLost(Message, frozen=True, kw_only=True):
    """Tell the followers of a request that a task did not find its payload. The next one waits for
    it, too: it may be brought meanwhile."""

    request: str


class TellAnswered(Message, frozen=True, kw_only=True):
    """Tell the followers of a request what became of it, with the outputs that came along."""

    answer: AnswerRequest
    result: model.Result
    outputs: Outputs


Effect = (
    InvokerOrder
    | ConfirmJoin
    | TellAccepted
    | TellProgress
    | TellPayloadLost
    | TellAnswered
    | RefuseRequest
    | CorrectProfiles
)
