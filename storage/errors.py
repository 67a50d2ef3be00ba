"""Errors of storage: data that is not there, and servers that refuse."""

from esg.errors import Fault
from esg.names import is_payload
from esg.runtime.rpc.status import FailedPrecondition


class Missing(Fault):
    """It is not there (any more). The scheduler has it made again."""

    def __init__(self, request: str, stage: str, where: str) -> None:
        what = "the payload" if not stage or is_payload(stage) else f"the output of stage {stage!r}"
        super().__init__(f"{what} of request {request!r} is not in {where}")
        self.request = request
        self.stage = stage


class StorageRefused(FailedPrecondition):
    """The server does not do what it was asked, and will not however often it is asked."""
