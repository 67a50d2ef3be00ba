"""Errors of storage: data that is not there, and servers that refuse."""

from esg.errors import Fault
from esg.names import is_payload
from esg.runtime.rpc.status import Misconfigured


class Missing(Fault):
    """It is not there (any more). The scheduler has it made again."""

    def __init__(self, request: str, stage: str, where: str) -> None:
        what = "the payload" if not stage or is_payload(stage) else f"the output of stage {stage!r}"
        super().__init__(f"{what} of request {request!r} is not in {where}")
        self.request = request
        self.stage = stage


class StoreUnavailable(Fault):
    """The server could not be reached, or has no room at the moment."""

    public = "the store between stages did not answer; try again, with the same id"


class StorageRefused(Misconfigured):
    """The server does not do what it was asked, and will not however often it is asked."""


class NotDurable(StorageRefused):
    """The server cannot say what it has on disk."""

    public = (
        "a payload that nobody waits for has to be on disk. Use a server that can tell (Redis from "
        "7.2 on, or Valkey) with appendonly yes, or set durable_payloads of the gateway to false"
    )
