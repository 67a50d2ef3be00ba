"""How a process of the mesh begins, serves and ends; the same for all of them.

It says where it listens once it does, by a file that appears whole (`ESG_READY_FILE`), serves
health and reflection next to its own services, and on SIGTERM or Ctrl-C finishes what it has begun
(health says NOT_SERVING first, so that nobody sends it more).
"""

import asyncio
import faulthandler
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from esg.errors import Fault, Rejected
from esg.files import written
from esg.runtime.logs import about, start_logging
from esg.runtime.memory import return_memory, settle_collector
from esg.runtime.rpc.addresses import READY_FILE, is_unix
from esg.runtime.rpc.channels import ANY_SIZE, KEEPALIVE
from esg.runtime.security.plain import check_listening, check_redis
from esg.runtime.security.tls import ON_THIS_MACHINE, Security
from esg.runtime.settings import CommonSettings
from esg.runtime.settings_file import Settings, service_settings

log = logging.getLogger(__name__)

Main = Callable[[Settings, CommonSettings, asyncio.Event], Awaitable[None]]
BURSTS = [
    # A burst of calls beyond some thousand gets random CANCELLED with the defaults
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 200_000),
    ("grpc.so_reuseport", 0),  # a taken port is an error, not a shared one
]
PING_MS = 4000
"""How often a peer may ask whether a connection still stands; our own clients ask less often."""
HTTP2_LIMITS = [
    ("grpc.max_concurrent_streams", 4096),  # of one connection; more calls wait with the caller
    ("grpc.server_handshake_timeout_ms", 10_000),
    *KEEPALIVE,  # peers that are gone without a word are found out
    ("grpc.http2.min_ping_interval_without_data_ms", PING_MS),
    ("grpc.http2.max_ping_strikes", 2),
]
"""What one connection may cost, at every server. What a caller says is limited elsewhere."""
IDLE_CONNECTION = [("grpc.max_connection_idle_ms", 300_000)]
"""For the public door: a connection without calls is closed after so long. A client makes another
one when it needs it, and notices nothing."""
FIXED_WINDOWS = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 2**18)]
"""For the public door: how much a call may have sent that nobody has asked for yet. gRPC would make
the windows larger by itself, to tens of megabytes each, on a connection that is quick."""

STALLED_S = 60.0
"""How long an event loop may stand still. Whoever asks for health from outside may give up sooner;
Docker shows what it hears, but does nothing about it."""


class Server:
    """A gRPC server with health and reflection."""

    def __init__(
        self,
        options: Sequence[tuple[str, Any]] = ANY_SIZE,
        security: Security = ON_THIS_MACHINE,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> None:
        self.grpc = grpc.aio.server(
            options=[*options, *BURSTS, *HTTP2_LIMITS], interceptors=interceptors
        )
        self._security = security
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)
        self._names: list[str] = []

    async def start(self, host: str, port: int, services: Sequence[str]) -> int:
        """Listen, and say that these services (full names) are well. Returns the port; a host
        that is the address of a Unix socket, `unix:PATH`, has none."""
        names = [*services, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, self.grpc)
        try:
            bound = self._bind(host, port)
        except RuntimeError:
            raise Rejected(
                f"cannot listen on {host}:{port}: is another process there? choose another port"
            ) from None
        await self.grpc.start()
        self._names = ["", *services]
        await self._say(health_pb2.HealthCheckResponse.SERVING)
        return bound

    def _bind(self, host: str, port: int) -> int:
        tls = self._security.server
        if tls is not None:
            return self.grpc.add_secure_port(f"{host}:{port}", tls.credentials())
        check_listening(host, insecure=self._security.insecure)
        address = host if is_unix(host) else f"{host}:{port}"
        return self.grpc.add_insecure_port(address)

    async def drain(self) -> None:
        """Tell whoever asks that nothing new is taken."""
        await self._say(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def say(self, service: str, *, serving: bool) -> None:
        """Whether one of the services is well, by its name."""
        known = health_pb2.HealthCheckResponse
        await self._health.set(service, known.SERVING if serving else known.NOT_SERVING)

    async def stop(self, grace_s: float) -> None:
        await self.grpc.stop(grace_s)

    async def _say(self, state: Any) -> None:
        for name in self._names:
            await self._health.set(name, state)


def raise_descriptor_limit() -> None:
    """Allow this process as many open files as it may have: every connection is one, and gRPC has
    no limit of its own on connections. The usual soft limit, 1,024, is soon used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def say_ready(address: str) -> None:
    """Tell whoever started this process where it listens."""
    log.info("serving", extra=about(address=address, pid=os.getpid()))
    file = os.environ.get(READY_FILE)
    if file:
        with written(Path(file)) as ready:
            ready.write(address)


def run_service(name: str, main: Main) -> int:
    """Run a process of the mesh until it is told to stop: its exit code.

    `main` gets an event that is set when it is time to go; it returns when it has finished.
    """
    try:
        settings = service_settings()
        common = settings.of(CommonSettings)
        start_logging(name, common.log_level, common.log_format)
        if settings.ignored:  # in a pod, enableServiceLinks: false leaves them out
            log.warning("variables ignored", extra=about(names=",".join(settings.ignored)))
        check_redis(common.redis_url, insecure=common.insecure)
        uvloop.run(_until_told(main, settings, common))
    except (Rejected, Fault) as error:
        print(f"error: {name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, Rejected) else 1
    return 0


async def _watch_loop() -> None:
    """Watchdog of the event loop: if that stands still for too long, the process ends, and tells
    where in its code it was; whoever runs it starts it again. It is a thread without Python."""
    while True:
        faulthandler.dump_traceback_later(STALLED_S, exit=True)
        await asyncio.sleep(STALLED_S / 10)


async def _until_told(main: Main, settings: Settings, common: CommonSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # It begins when `main` waits for the first time: what is read before that may take long
    duties = (_watch_loop(), return_memory(), settle_collector())
    beside = [loop.create_task(duty) for duty in duties]
    try:
        await main(settings, common, stop)
    finally:
        for task in beside:
            task.cancel()
        faulthandler.cancel_dump_traceback_later()
    log.info("ended", extra=about(pid=os.getpid()))
