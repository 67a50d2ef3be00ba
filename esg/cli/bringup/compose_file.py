"""The part of a Compose project that depends on a host's GPUs.

The slices of a node share the network and the memory of its container `node` with its invoker: so
they are called on the loopback, and large tensors go through shared memory. Nothing is published.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from esg.core.catalog.model import Function
from esg.invoker.slices.mig import Instance

FIRST_PORT = 8100
"""Slice 3 speaks gRPC on 8103, and HTTP, for its health check, on 9103."""
HTTP = 1000
VARIANT = Path("models", "gpu")

HEAD = """\
# Made by `esg compose`, for the MIG instances of one host; made again, it is replaced.

x-slice: &slice
  image: ${MESH_TRITON_IMAGE:-nvcr.io/nvidia/tritonserver:25.08-py3}
  profiles: [node]
  user: "10001:10001"
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  tmpfs: ["/tmp:size=1g,mode=1777"]
  restart: unless-stopped
  depends_on: [node]
  network_mode: "service:node"
  volumes:
    - {type: volume, source: shared, target: /dev/shm, volume: {nocopy: true}}
"""

MODEL = """\
    - {{type: bind, source: "{source}", target: "/models/{name}", read_only: true}}
"""

LIMITS = """\
  mem_limit: 8g
  pids_limit: 512

services:
"""

SLICE = """\
  # {name}, {memory_mb} MB
  slice-{index}:
    <<: *slice
    command:
      - tritonserver
      - --id=slice-{index}
      - --model-repository=/models
      - --model-control-mode=explicit
      - --disable-auto-complete-config
      - --grpc-address=127.0.0.1
      - --grpc-port={port}
      - --http-address=127.0.0.1
      - --http-port={http}
      - --allow-metrics=false
      - --backend-config=python,shm-region-prefix-name=slice-{index}-
    # Not "ready": that is taken back while models come and go, and for good if one fails to load
    healthcheck:
      test: [CMD, curl, --fail, --silent, "http://127.0.0.1:{http}/v2/health/live"]
      interval: 5s
      timeout: 10s
      retries: 24
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              device_ids: ["{uuid}"]
              capabilities: [gpu]

"""

INVOKER = """\
  invoker:
    depends_on:
      node: {{condition: service_started}}
{slices}    environment:
      ESG_INVOKER_SLICES: "{addresses}"
      ESG_INVOKER_SLICE_MEMORY_MB: "{memory_mb}"
"""

AFTER = """\
      slice-{index}: {{condition: service_healthy}}
"""


def compose_file(instances: Sequence[Instance], functions: Iterable[Function]) -> str:
    """The text of the file. If instances differ in memory, all are taken to have the least."""
    numbered = list(enumerate(instances))
    models = (
        MODEL.format(name=function.name, source=(Path(function.folder) / VARIANT).resolve())
        for function in functions
    )
    slices = (
        SLICE.format(
            index=index,
            port=FIRST_PORT + index,
            http=FIRST_PORT + HTTP + index,
            uuid=instance.uuid,
            name=instance.name,
            memory_mb=instance.memory_mb,
        )
        for index, instance in numbered
    )
    invoker = INVOKER.format(
        slices="".join(AFTER.format(index=index) for index, _ in numbered),
        addresses=",".join(f"127.0.0.1:{FIRST_PORT + index}" for index, _ in numbered),
        memory_mb=min(instance.memory_mb for instance in instances),
    )
    return "".join((HEAD, *models, LIMITS, *slices, invoker))


def without_model_file(functions: Iterable[Function]) -> list[Function]:
    """Functions whose folder has a description of the model, and not the model itself."""
    return [
        function
        for function in functions
        if not any((Path(function.folder) / VARIANT).glob("*/model.*"))
    ]
