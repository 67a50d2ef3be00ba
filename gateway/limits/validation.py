"""Validation of requests, and their content hash, which tells a repeat from another request.

Only what can be seen from the request itself is checked here. Whether there is such an application,
and whether its SLO can be met, is the controller's to say.
"""

import asyncio
import uuid
from hashlib import sha256

from esg.errors import Rejected
from esg.gateway.limits.rate_limits import PayloadCharge
from esg.limits import LONGEST_SLO_MS
from esg.names import LONGEST_CHOSEN, OWNER_MARK, PLAIN, is_printable
from esg.protos import controller_v1_pb2 as controller
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.status import TooLarge
from esg.runtime.security.ownership import owned
from esg.runtime.settings import GatewaySettings
from esg.units import ms

LONGEST_SLO_US = ms(LONGEST_SLO_MS)
HASH_BYTES = 16
HASHED_AT_ONCE = 2**21
"""A larger payload is hashed in a thread, so that nobody else waits for it."""


async def checked(
    asked: public.SubmitRequest,
    charge: PayloadCharge,
    remaining_s: float | None,
    limits: GatewaySettings,
    owner: str = "",
    *,
    fetched_later: bool = False,
    label: str = "",
) -> controller.Submission:
    """What the controller is told of a request, if there is nothing wrong with it. An id that is
    made up begins with the label, if there is one."""
    check_payload(len(charge.content), limits)
    check_name("application", asked.application, owner)
    slo_us = asked.slo_us if asked.HasField("slo_us") else None
    if slo_us is not None and not 0 < slo_us <= LONGEST_SLO_US:
        raise Rejected(f"slo_us: is {slo_us}; it must be from 1 to {LONGEST_SLO_US}")
    if not asked.request_id:
        # Without an idempotency key it cannot be repeated, so its content is nobody's concern
        request, content_hash = uuid.uuid4().hex, b""
        if label:
            request = f"{label}.{request}"
    else:
        request = check_id(asked.request_id)
        spoken = f"{asked.application!r} {slo_us} {asked.all_stages} ".encode()
        if len(charge.content) > HASHED_AT_ONCE:
            content_hash = await asyncio.to_thread(_content_hash, spoken, charge.content)
        else:
            content_hash = _content_hash(spoken, charge.content)
    return controller.Submission(
        request_id=owned(owner, request),
        application=asked.application,
        owner=owner,
        slo_us=slo_us,
        content_hash=content_hash,
        deadline_us=_deadline_us(remaining_s),
        all_stages=asked.all_stages,
        fetched_later=fetched_later,
        payload=charge.content if _is_small(charge, limits) and not fetched_later else b"",
    )


def _is_small(charge: PayloadCharge, limits: GatewaySettings) -> bool:
    """Whether a payload may travel with its request. If nobody waits for that, nobody could send
    the payload again, and it has to be on disk instead."""
    return len(charge.content) <= limits.small_payload_bytes


def check_id(request_id: str) -> str:
    if not PLAIN.fullmatch(request_id):
        raise Rejected(
            f"request_id: is {request_id[:120]!r}; it must be 1 to {LONGEST_CHOSEN} letters, "
            "digits and any of - _ . :"
        )
    return request_id


def check_name(kind: str, name: str, owner: str = "") -> str:
    """What may be called so by a client. That there is an owner in it only others may say."""
    if not name:
        raise Rejected(f"{kind}: is empty; name one, ListApplications says which there are")
    if len(name) > LONGEST_CHOSEN or not is_printable(name) or (owner and OWNER_MARK in name):
        raise Rejected(
            f"{kind}: is {name[:120]!r}; it must be 1 to {LONGEST_CHOSEN} printable characters, "
            f"without {OWNER_MARK}"
        )
    return name


def check_payload(size: int, limits: GatewaySettings) -> None:
    if size == 0:
        raise Rejected("payload: is empty; send the bytes that the first stage is to read")
    if size > limits.max_payload_bytes:
        raise TooLarge(
            f"payload: is larger than {limits.max_payload_bytes} bytes, the most that is accepted; "
            "send a smaller one, or raise max_payload_bytes of the gateway"
        )


def _content_hash(spoken: bytes, payload: bytes) -> bytes:
    """SHA-256, cut to 128 bits. Processors have instructions for it: it takes half as long as
    BLAKE2."""
    digest = sha256(spoken)
    digest.update(payload)
    return digest.digest()[:HASH_BYTES]


def _deadline_us(remaining_s: float | None) -> int | None:
    if remaining_s is None or remaining_s * 1e6 > LONGEST_SLO_US:
        return None
    return max(1, int(remaining_s * 1e6))
