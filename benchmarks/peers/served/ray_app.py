"""Ray Serve: an ingress and three deployments, composed by their handles."""
# mypy: ignore-errors

import signal
import sys

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

# Each replica wants a core of its own by default, and would not be placed on a small machine.
SMALL = {"num_cpus": 0.1}


@serve.deployment(ray_actor_options=SMALL)
class Stage:
    async def __call__(self, payload: bytes) -> bytes:
        return payload


@serve.deployment(ray_actor_options=SMALL)
class Pipeline:
    def __init__(self, first, second, third) -> None:
        self._first, self._second, self._third = first, second, third

    async def __call__(self, request: Request) -> Response:
        one = self._first.remote(await request.body())
        two = self._second.remote(one)
        return Response(await self._third.remote(two))


if __name__ == "__main__":
    ray.init(address="local", _temp_dir=sys.argv[2])
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    stages = [Stage.options(name=f"stage{number}").bind() for number in (1, 2, 3)]
    serve.run(Pipeline.bind(*stages))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    signal.pause()
