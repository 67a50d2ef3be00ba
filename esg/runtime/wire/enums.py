"""Enumerations and configs on the wire, both ways, for services and clients."""

from esg.core.catalog.config import Config
from esg.core.catalog.late_requests import LateRequests
from esg.core.messages.outcome import Outcome
from esg.protos import model_v1_pb2 as model

OUTCOMES = {
    Outcome.DONE: model.OUTCOME_DONE,
    Outcome.FAILED: model.OUTCOME_FAILED,
    Outcome.CANCELLED: model.OUTCOME_CANCELLED,
    Outcome.DROPPED: model.OUTCOME_DROPPED,
    Outcome.INVALID: model.OUTCOME_INVALID,
}
LATE_REQUESTS = {
    LateRequests.FINISH: model.LATE_REQUESTS_FINISH,
    LateRequests.DROP: model.LATE_REQUESTS_DROP,
}
_OUTCOMES = {number: outcome for outcome, number in OUTCOMES.items()}
_LATE_REQUESTS = {number: way for way, number in LATE_REQUESTS.items()}


def outcome_from_wire(said: model.Outcome) -> Outcome:
    """One that is not known here, from a newer service, is no success."""
    return _OUTCOMES.get(said, Outcome.FAILED)


def late_requests_from_wire(said: model.LateRequests) -> LateRequests:
    """What is not said, or not known here, is what everybody gets."""
    return _LATE_REQUESTS.get(said, LateRequests.FINISH)


def config_to_wire(config: Config) -> model.Config:
    batch, vcpus, vgpus, kind = config
    return model.Config(batch=batch, vcpus=vcpus, vgpus=vgpus, kind=kind)


def config_from_wire(said: model.Config) -> Config:
    return Config(said.batch, said.vcpus, said.vgpus, said.kind)
