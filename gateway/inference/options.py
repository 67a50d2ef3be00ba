"""The parameters of a request of the Open Inference Protocol, and those of its answer.

What is not known here is refused: whoever asked for something would believe to have it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from esg.errors import Rejected
from esg.limits import LONGEST_SLO_MS
from esg.protos import model_v1_pb2 as model
from esg.runtime.wire.enums import config_from_wire
from esg.suggest import did_you_mean
from esg.units import ms

Value = bool | int | float | str

TIMEOUT, SLO, DETAILS, IDEMPOTENT = "timeout", "esg_slo_ms", "esg_details", "esg_idempotent"
FINAL_MARK = "triton_enable_empty_final_response"
"""That a stream's last answer to a request is to be marked as such. Each has one answer here."""
PRIORITY = "priority"
UNUSED = {"sequence_id": 0, "sequence_start": False, "sequence_end": False, PRIORITY: 0}
"""What may be said as long as it means nothing."""
KNOWN = (TIMEOUT, SLO, DETAILS, IDEMPOTENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferOptions:
    """`timeout_us` is how long the client waits, and `slo_us` the deadline instead of the
    application's. With `details` the answer says how it went; with `idempotent` the id is an
    idempotency key. `marks_final`: whether a stream's answer is to be marked as the last one."""

    timeout_us: int | None = None
    slo_us: int | None = None
    details: bool = False
    idempotent: bool = False
    marks_final: bool = False


def options_of(given: Mapping[str, Value], request_id: str) -> InferOptions:
    """Of a request's parameters.

    >>> options_of({"esg_slo_ms": 300, "timeout": 500_000}, "").slo_us
    300000
    """
    for name, value in given.items():
        if name in UNUSED and value != UNUSED[name]:
            raise Rejected(_refusal(name, value))
        if name not in (*KNOWN, FINAL_MARK, *UNUSED):
            raise Rejected(f"parameter {did_you_mean('name', name, KNOWN)}")
    idempotent = _flag(given, IDEMPOTENT)
    if idempotent and not request_id:
        raise Rejected(f"{IDEMPOTENT}: the request has no id that could be its key; give it one")
    return InferOptions(
        timeout_us=_timeout_us(given.get(TIMEOUT)),
        slo_us=_slo_us(given.get(SLO)),
        details=_flag(given, DETAILS),
        idempotent=idempotent,
        marks_final=_flag(given, FINAL_MARK),
    )


def _refusal(name: str, value: Value) -> str:
    if name == PRIORITY:
        return (
            f"parameter priority: is {value}, and there are no priorities here; what decides is "
            f"the deadline: give {SLO}"
        )
    return f"parameter {name}: is {value}; a pipeline keeps nothing between requests: leave it out"


def _flag(given: Mapping[str, Value], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise Rejected(f"parameter {name}: is {str(value)[:40]!r}; it must be true or false")
    return value


def _timeout_us(value: Value | None) -> int | None:
    """Triton takes 0 as none."""
    if value is None or (value == 0 and not isinstance(value, bool)):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Rejected(f"parameter {TIMEOUT}: is {str(value)[:40]!r}; it must be microseconds")
    return min(value, ms(LONGEST_SLO_MS))


def _slo_us(value: Value | None) -> int | None:
    if value is None:
        return None
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not 0 < float(value) <= LONGEST_SLO_MS:
        raise Rejected(
            f"parameter {SLO}: is {str(value)[:40]!r}; it must be a number above 0 and at most "
            f"{LONGEST_SLO_MS}"
        )
    return ms(float(value))


def details(results: Sequence[model.Result]) -> dict[str, bool | int | str]:
    """How the requests of one answer went. What is no whole number is text, as the protocol's
    first versions know no other numbers."""
    return {
        "esg_slo_met": all(result.slo_met for result in results),
        "esg_slo_us": min(result.slo_us for result in results),
        "esg_latency_us": max(result.latency_us for result in results),
        "esg_cost_usd": f"{sum(result.cost_usd for result in results):.12f}",
        "esg_requests": json.dumps([_request(result) for result in results]),
    }


def _request(result: model.Result) -> dict[str, object]:
    return {
        "id": result.request_id,
        "slo_met": result.slo_met,
        "latency_us": result.latency_us,
        "cost_usd": result.cost_usd,
        "stages": [_stage(stage) for stage in result.stages],
    }


def _stage(stage: model.StageResult) -> dict[str, object]:
    return {
        "stage": stage.stage,
        "node": stage.node,
        "config": str(config_from_wire(stage.config)),
        "ready_us": stage.ready_us,
        "started_us": stage.started_us,
        "finished_us": stage.finished_us,
        "cost_usd": stage.cost_usd,
    }
