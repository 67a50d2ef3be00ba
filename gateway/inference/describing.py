"""What the protocol says of models: metadata, configurations, the index, statistics."""

from typing import Any

from tritonclient.grpc import model_config_pb2 as config
from tritonclient.grpc import service_pb2 as wire

from esg.core.catalog.ports import ANY_LENGTH, Port
from esg.gateway.inference.models import Model
from esg.gateway.inference.payloads import shape_of
from esg.gateway.inference.statistics import ModelTotals, Total
from esg.tensors import BYTES
from esg.version import __version__

PLATFORM = "esg_pipeline"
EXTENSIONS = ("model_configuration", "model_repository", "statistics", "parameters")
READY = "READY"


def server_metadata() -> Any:
    return wire.ServerMetadataResponse(name="esg", version=__version__, extensions=EXTENSIONS)


def model_metadata(model: Model) -> Any:
    """Every shape begins with the batch."""
    tensor = wire.ModelMetadataResponse.TensorMetadata

    def described(name: str, port: Port) -> Any:
        datatype, shape = shape_of(port)
        return tensor(name=name, datatype=datatype, shape=(ANY_LENGTH, *shape))

    return wire.ModelMetadataResponse(
        name=model.name,
        versions=[model.version],
        platform=PLATFORM,
        inputs=[described(port.name, port) for port in model.inputs],
        outputs=[described(name, output.port) for name, output in model.outputs.items()],
    )


def model_config(model: Model, largest_batch: int) -> Any:
    found = config.ModelConfig(name=model.name, platform=PLATFORM, max_batch_size=largest_batch)
    for port in model.inputs:
        datatype, shape = shape_of(port)
        found.input.add(name=port.name, data_type=_type(datatype), dims=shape)
    for name, output in model.outputs.items():
        datatype, shape = shape_of(output.port)
        found.output.add(name=name, data_type=_type(datatype), dims=shape)
    return wire.ModelConfigResponse(config=found)


def _type(datatype: str) -> Any:
    return config.DataType.Value("TYPE_STRING" if datatype == BYTES else f"TYPE_{datatype}")


def index_of(models: list[Model]) -> Any:
    found = wire.RepositoryIndexResponse()
    for model in models:
        found.models.add(name=model.name, version=model.version, state=READY)
    return found


def statistics_of(model: Model, totals: ModelTotals) -> Any:
    return wire.ModelStatistics(
        name=model.name,
        version=model.version,
        inference_count=totals.done.count,
        execution_count=totals.done.count,
        inference_stats=wire.InferStatistics(
            success=_duration(totals.done),
            fail=_duration(totals.failed),
            queue=_duration(totals.queued),
            compute_input=_nothing(totals.run),
            compute_infer=_duration(totals.run),
            compute_output=_nothing(totals.run),
        ),
    )


def _nothing(total: Total) -> Any:
    """What is part of another time; perf_analyzer wants it counted as often."""
    return wire.StatisticDuration(count=total.count)


def _duration(total: Total) -> Any:
    return wire.StatisticDuration(count=total.count, ns=total.total_us * 1000)
