"""Ports as protobuf: the inputs and outputs of an application."""

from esg.core.catalog.ports import Port
from esg.protos import model_v1_pb2 as model


def port_to_wire(port: Port, name: str, stage: str = "") -> model.Port:
    """`name` is what the application calls it."""
    return model.Port(
        name=name,
        media_type=port.media_type,
        datatype=port.datatype,
        shape=port.shape,
        stage=stage,
        output=port.name if stage else "",
    )


def port_from_wire(told: model.Port) -> Port:
    """As the application calls it."""
    return Port(told.name, told.media_type, told.datatype, tuple(told.shape))
