"""Small payloads on their way from gateways to first stages, which keep clear of Redis.

They are held beside the requests under way, in memory alone: whoever submitted them waits, and
still has them. They are neither the scheduler's business nor the journal's; so after a restart
there are none, and gateways are asked to store theirs (`esg.gateway.small_payloads`).

Their sum is bounded by the limits that there are: a gateway has at most `max_under_way` requests,
and none of them brings more than `MOST_INLINE_BYTES`, or `small_payload_bytes` of our own gateways:
with the defaults, 160 MB for every gateway that is as full as can be.
"""

from msgspec.structs import replace

from esg.core.messages.task_order import InlinePayload, JobOrder, Payload, TaskOrder


class SmallPayloads:
    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def __contains__(self, request: str) -> bool:
        return request in self._contents

    def __len__(self) -> int:
        return len(self._contents)

    def keep(self, request: str, content: bytes) -> None:
        """The payload that came with a submission; empty if none did."""
        if content:
            self._contents[request] = content

    def forget(self, request: str) -> None:
        """It has ended."""
        self._contents.pop(request, None)

    def attached(self, order: TaskOrder) -> TaskOrder:
        """An order as it is sent: with the payloads that are here, if it is for a first stage."""
        if not any(job.request in self._contents for job in order.jobs):
            return order
        return replace(order, jobs=tuple(map(self._attached, order.jobs)))

    def _attached(self, job: JobOrder) -> JobOrder:
        source, content = job.inputs[0], self._contents.get(job.request)
        if content is None or not isinstance(source, Payload):
            return job
        return replace(job, inputs=(InlinePayload(key=source.key, content=content),))
