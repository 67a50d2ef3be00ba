"""Requests as the gateway is told them.

A request's id is its idempotency key: whatever is sent again under the same id, with the same
content, runs once. A program that gives none gets a new one for each request.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from esg.client.slo import slo_us_of
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.chunks import pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """How a request is to be run: what the keyword arguments of `submit` say."""

    request_id: str
    slo_ms: float | None = None
    all_stages: bool = False
    timeout_s: float | None = None
    in_parts: bool = False


def given_or_new(request_id: str | None) -> str:
    return uuid.uuid4().hex if request_id is None else request_id


def submit_request(
    application: str, payload: bytes, options: SubmitOptions
) -> public.SubmitRequest:
    """A request in one message; refused if its SLO cannot be meant."""
    return public.SubmitRequest(
        application=application,
        payload=payload,
        slo_us=slo_us_of(options.slo_ms),
        request_id=options.request_id,
        all_stages=options.all_stages,
        in_parts=options.in_parts,
    )


def submit_chunks(
    application: str, payload: bytes, options: SubmitOptions, *, fetched_later: bool = False
) -> Iterator[public.SubmitChunk]:
    """A request in several messages: the first has its first piece, the others more of them."""
    parts = pieces(payload)
    first = submit_request(application, next(parts), options)
    yield public.SubmitChunk(request=first, fetched_later=fetched_later)
    for piece in parts:
        yield public.SubmitChunk(payload=piece)
