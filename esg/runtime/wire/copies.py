"""Copies of protobuf messages: what was received is never edited, as others may hold it too."""

from typing import Any, TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


def changed(message: M, **fields: Any) -> M:
    """A copy with other values in some fields.

    >>> from esg.protos import model_v1_pb2 as model
    >>> application = model.Application(name="alice~photo", version=2)
    >>> changed(application, name="photo").name, application.name
    ('photo', 'alice~photo')
    """
    copy = type(message)()
    copy.CopyFrom(message)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy
