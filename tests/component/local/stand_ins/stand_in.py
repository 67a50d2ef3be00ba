"""A process of a mesh that only begins, says that it is well, and ends.

How it misbehaves is said by the variable STAND_IN, for one service or node: `gateway refuses`,
`node1 fails`, `controller clings` (to life, when told to end), `node0 hangs` (is never ready),
`gateway stalls` (when it has been ready for a moment, nothing happens in its loop any more).
"""

import asyncio
import os
import signal
import sys
import time
from typing import Any

from esg.errors import Rejected
from esg.runtime.rpc import server as rpc_server
from esg.runtime.rpc.server import Server, run_service, say_ready
from esg.runtime.settings import SECTIONS, CommonSettings, InvokerSettings
from esg.runtime.settings_file import Settings


def run(service: str) -> int:
    async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
        own: Any = settings.of(SECTIONS[service])
        name = own.node if isinstance(own, InvokerSettings) else service
        who, _, habit = os.environ.get("STAND_IN", "").partition(" ")
        if who == name:
            if habit == "refuses":
                raise Rejected("nothing is as it should be")
            if habit == "fails":
                raise RuntimeError("this is how I end")
            if habit == "hangs":
                await stop.wait()
            if habit == "stalls":
                rpc_server.STALLED_S = 1.0
                asyncio.get_running_loop().call_later(0.1, time.sleep, 600)
        server = Server()
        port = await server.start(own.host, own.port, [])
        say_ready(f"{own.host}:{port}")
        await stop.wait()
        print(f"told to stop: {name}", file=sys.stderr)
        if who == name and habit == "clings":
            signal.pause()
        await server.stop(0)

    return run_service(service, main)
