"""The models of one emulated slice, and what becomes of them on orders to load and unload.

States, words and status codes are those of a real Triton in explicit mode (2.51): a model that is
being unloaded stays UNLOADING for a while after the order was answered, an order to unload one that
is being loaded waits, unloading what is not there is no error. Memory is counted as the pool counts
it, so an invoker that overfills a slice is refused here as it would be by a GPU.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import grpc

from esg.core.catalog.model import Function
from esg.invoker.emulated.statistics import Statistics
from esg.units import US_PER_S


class RepositoryState(StrEnum):
    NEVER_LOADED = ""
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


_IN_MEMORY = (RepositoryState.LOADING, RepositoryState.READY, RepositoryState.UNLOADING)
_UNLOADED = "unloaded"
_LOOK_AGAIN_S = 0.02


class TritonRefusal(Exception):
    """What a Triton would answer instead."""

    def __init__(self, code: grpc.StatusCode, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(slots=True)
class EmulatedModel:
    function: Function
    state: RepositoryState = RepositoryState.NEVER_LOADED
    reason: str = ""
    statistics: Statistics = field(default_factory=Statistics)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    vanishing: asyncio.TimerHandle | None = None
    streams: int = 0  # open ones over which it was called: it cannot go before they do


class Repository:
    """`load_us` says how long a model takes to load, `unload_us` how long any takes to vanish."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        *,
        memory_mb: int,
        load_us: Callable[[str], int],
        unload_us: int,
    ) -> None:
        self.models = {
            name: EmulatedModel(function) for name, function in sorted(functions.items())
        }
        self._memory_mb = memory_mb
        self._load_us = load_us
        self._unload_us = unload_us

    def warm(self) -> None:
        """Have every model that fits, from the first to the last, without loading it."""
        for model in self.models.values():
            if model.function.memory_mb <= self._memory_free_mb():
                model.state = RepositoryState.READY

    def ready(self, name: str) -> EmulatedModel:
        """A model that can be called."""
        model = self.models.get(name)
        if model is None or model.state is RepositoryState.NEVER_LOADED:
            raise TritonRefusal(
                grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{name}' is not found"
            )
        if model.state is not RepositoryState.READY:
            raise TritonRefusal(
                grpc.StatusCode.NOT_FOUND,
                f"Request for unknown model: '{name}' has no available versions",
            )
        return model

    def is_ready(self, name: str) -> bool:
        model = self.models.get(name)
        return model is not None and model.state is RepositoryState.READY

    @property
    def is_settled(self) -> bool:
        """What Triton calls ready: no model is on its way in or out, or could not be loaded."""
        return all(
            model.state in (RepositoryState.NEVER_LOADED, RepositoryState.READY)
            or model.reason == _UNLOADED
            for model in self.models.values()
        )

    async def load(self, name: str) -> None:
        """Returns when the model is ready."""
        model = self.models.get(name)
        if model is None:
            raise TritonRefusal(
                grpc.StatusCode.INTERNAL,
                f"failed to load '{name}', failed to poll from model repository",
            )
        async with model.changing:
            if model.state is RepositoryState.READY:
                return
            if model.vanishing is not None:
                model.vanishing.cancel()
                self._vanish(model)
            self._check_memory(model)
            model.state, model.reason, model.statistics = RepositoryState.LOADING, "", Statistics()
            try:
                await asyncio.sleep(self._load_us(name) / US_PER_S)
                model.state = RepositoryState.READY
            finally:
                if model.state is RepositoryState.LOADING:  # whoever wanted it gave up
                    model.state, model.reason = RepositoryState.UNAVAILABLE, "loading was cancelled"

    async def unload(self, name: str) -> None:
        """Returns at once; the model is gone later."""
        model = self.models.get(name)
        if model is None:
            return
        async with model.changing:
            if model.state is RepositoryState.READY:
                model.state = RepositoryState.UNLOADING
                loop = asyncio.get_running_loop()
                delay_s = self._unload_us / US_PER_S
                model.vanishing = loop.call_later(delay_s, self._vanish_if_free, model)

    def _vanish_if_free(self, model: EmulatedModel) -> None:
        if model.streams:
            loop = asyncio.get_running_loop()
            model.vanishing = loop.call_later(_LOOK_AGAIN_S, self._vanish_if_free, model)
        else:
            self._vanish(model)

    def _vanish(self, model: EmulatedModel) -> None:
        model.state, model.reason, model.vanishing = RepositoryState.UNAVAILABLE, _UNLOADED, None

    def _check_memory(self, model: EmulatedModel) -> None:
        wanted_mb, free_mb = model.function.memory_mb, self._memory_free_mb()
        if wanted_mb > free_mb:
            model.state = RepositoryState.UNAVAILABLE
            model.reason = f"Internal: out of memory: {wanted_mb} MB wanted, {free_mb} MB free"
            raise TritonRefusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"load failed for model '{model.function.name}': "
                f"version 1 is at UNAVAILABLE state: {model.reason};",
            )

    def _memory_free_mb(self) -> int:
        return self._memory_mb - sum(
            model.function.memory_mb for model in self.models.values() if model.state in _IN_MEMORY
        )
