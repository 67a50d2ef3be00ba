"""All emulated slices of a node, as one process: `python -m esg.invoker.emulated DIRECTORY`.

Every slice has a server and a Unix socket of its own in that directory (`slices.directory`), as
every MIG instance has its Triton. Settings are the invoker's; the addresses are in the ready file,
with commas between them.
"""

import argparse
import asyncio
import socket
import sys
from functools import partial
from pathlib import Path

from esg.errors import Rejected
from esg.invoker.emulated.slices import emulated_slices
from esg.invoker.slices.client import SERVICE
from esg.invoker.slices.directory import SliceDirectory
from esg.runtime.catalog import load
from esg.runtime.rpc.server import Server, run_service, say_ready
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.settings_file import Settings
from esg.runtime.slice_setting import Emulated, parse_slices


async def serve(
    directory: SliceDirectory, settings: Settings, common: CommonSettings, stop: asyncio.Event
) -> None:
    own = settings.of(InvokerSettings)
    wanted = parse_slices(own.slices)
    if not isinstance(wanted, Emulated):
        raise Rejected(f"invoker.slices: {own.slices!r} leaves nothing to emulate; say emulated:N")
    node = own.node or socket.gethostname()
    catalog = load(common)
    slices = emulated_slices(node, wanted.kinds(catalog.kinds), own, common, catalog)
    servers = [Server() for _ in slices]
    addresses = [f"unix:{directory.socket(index)}" for index in range(len(slices))]
    for part, server, address in zip(slices, servers, addresses, strict=True):
        server.grpc.add_generic_rpc_handlers((part.handlers(),))
        await server.start(address, 0, [SERVICE])
    say_ready(",".join(addresses))
    await stop.wait()
    await asyncio.gather(*(server.drain() for server in servers))
    await asyncio.gather(*(server.stop(common.drain_s) for server in servers))
    for part in slices:
        part.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="esg.invoker.emulated")
    parser.add_argument("directory", type=Path, help="where the slices' sockets go")
    directory = SliceDirectory(parser.parse_args().directory, shared=False)
    return run_service("emulated-slices", partial(serve, directory))


if __name__ == "__main__":
    sys.exit(main())
