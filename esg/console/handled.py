"""Functions whose handlers use vCPUs otherwise than their profiles were modelled, in words.

On emulated slices no handler is called, and what is planned is what happens; on real ones it is
not, until somebody measures.
"""

from collections.abc import Iterable

from esg.console.formatting import joined
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.model import Application, Function

DONE = {
    CpuUse.WITHIN_JOB: "one job after the other on all vCPUs",
    CpuUse.ACROSS_JOBS: "each job on one core",
}


def handled_notes(functions: Iterable[Function]) -> list[str]:
    """A sentence for each kind of difference, and what to do about it."""
    notes = []
    different = [function for function in functions if function.handled_otherwise]
    for use in CpuUse:
        names = [function.name for function in different if function.cpu is use]
        if names:
            modelled = next(other for other in CpuUse if other is not use)
            single = "longer" if use is CpuUse.ACROSS_JOBS else "less"
            notes.append(
                f"On real slices, tasks of {joined(names)} are not as planned: modelled is "
                f'{DONE[modelled]} (cpu = "{modelled}"), but the handler does {DONE[use]} '
                f'(cpu = "{use}"). With several vCPUs a single job takes {single}; esg profile '
                "measures it."
            )
    return notes


def fastest_handled_us(application: Application) -> dict[str, int]:
    """From each stage on, the shortest time to the end that its handlers allow."""
    return application.fastest_us(lambda function: function.fastest_handled_us)
