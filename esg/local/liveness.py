"""Liveness probes: a process that lives but does not answer is as good as dead.

Each process of a mesh is asked all the time, over a connection that is kept. Its own event loop
has to answer; what it says is its own affair, be it that it takes no requests. One that has said
nothing to several questions in a row is killed, and then started again like one that died.
Questions are counted, not seconds: if the machine slept, or the supervisor was stopped, that is
nobody's silence.
"""

import asyncio

from esg.local.process import Line, Process, ProcessState

PROBE_EVERY_S = 5.0
"""How often a process is asked, and how long it has to answer."""
MOST_UNANSWERED = 3


async def watch(process: Process, line: Line) -> None:
    """Ask a process for as long as it is ready; kill it if it falls silent."""
    unanswered = 0
    async with line as ask:
        while process.state is ProcessState.READY:
            # Each question has the whole interval, also if it fails at once
            _, answered = await asyncio.gather(asyncio.sleep(PROBE_EVERY_S), ask(PROBE_EVERY_S))
            if answered is not None:
                unanswered = 0 if answered else unanswered + 1
            if unanswered >= MOST_UNANSWERED and process.state is ProcessState.READY:
                process.silent = True
                process.kill(wanted=True)
