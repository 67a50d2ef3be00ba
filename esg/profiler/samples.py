"""What functions are given to work on.

A function's own sample is the file `sample.*` in its folder. Without one, it gets what it would get
in the first application that has it: the output of the stage before, for which that is run once; or
in a first stage the payload that somebody named, or a picture of the size that the catalog says.
"""

from pathlib import Path

from esg.core.catalog.model import Catalog, Function
from esg.profiler.grid import SMALLEST
from esg.profiler.node_under_test import Bench, Inputs
from esg.workload.payloads import png


class ProfilingPayloads:
    """`payload` is for first stages; None: a generated picture."""

    def __init__(self, catalog: Catalog, bench: Bench, payload: bytes | None) -> None:
        self._catalog = catalog
        self._bench = bench
        self._payload = payload
        self._outputs: dict[str, bytes] = {}

    async def inputs_of(self, function: Function) -> Inputs:
        """For one job of a function."""
        if (own := _own_sample(function)) is not None:
            return [own]
        before = self._before(function)
        if before:
            return [await self._output_of(one) for one in before]
        return [self._payload or png(function.input_bytes, seed=function.name)]

    def keep(self, function: str, output: bytes) -> None:
        """What a function has made, for those that come after it."""
        self._outputs.setdefault(function, output)

    def _before(self, function: Function) -> list[Function]:
        """Whose outputs it reads in the first application that has it; nobody's, in a first
        stage."""
        for application in self._catalog.applications.values():
            for stage in application.stages.values():
                if stage.function.name == function.name:
                    return [application.stages[name].function for name in stage.after]
        return []

    async def _output_of(self, function: Function) -> bytes:
        if function.name not in self._outputs:
            inputs = await self.inputs_of(function)
            smallest = SMALLEST._replace(kind=self._bench.kinds[0])
            ran = await self._bench.run(function.name, smallest, [inputs])
            self._bench.drop(function.name)
            self.keep(function.name, ran.outputs[0])
        return self._outputs[function.name]


def _own_sample(function: Function) -> bytes | None:
    files = sorted(Path(function.folder).glob("sample.*")) if function.folder else []
    return files[0].read_bytes() if files else None
