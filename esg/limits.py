"""Limits: how large a number may be that comes from outside. Lengths of names are in `names`.

| what                                   | who says it             | checked in                |
|----------------------------------------|-------------------------|---------------------------|
| SLO of a request                       | client                  | `gateway.validation`      |
| SLO and scale of an application        | catalog, client         | `core.catalog.model`      |
| stages of an application               | client                  | `core.scheduler.registry` |
| vCPUs, slices, memory, tasks, times    | node, controller        | `runtime.wire.checks`     |
| bytes that travel with a message       | gateway, controller     | `runtime.wire.checks`     |
| times, prices and sizes of a function  | catalog                 | `core.catalog`            |

Each is far beyond anything real, and small enough that sums and products of what is within the
limits fit into 64 bits, and into a float without becoming infinite.
"""

from esg.units import DAY_MS, DAY_S, US_PER_S

LONGEST_US = 2**50
"""Some 35 years: a time that is longer is nonsense, whatever it is of, and time without a limit is
as much. Sums of such times fit into 64 bits."""
LONGEST_SLO_MS = DAY_MS
"""Of a request: a deadline longer than a day is a slip, or was meant as none."""

MOST_STAGES = 32
"""Of an application that comes at run time: requests wait while its engine is built, and a chain of
twice as many takes more than a second."""
MOST_STAGES_READ = 1_000
"""Of an application: what is larger is not even looked at."""

MOST_INLINE_BYTES = 2**16
"""Of data that travels with a message instead of through the remote store. A message has at most
some hundred such pieces, and must stay well below what its receiver takes (`AMONG_OURSELVES`)."""

MOST_BROUGHT_BYTES = 2**17
"""Of results that come with one report. As many reports as there may be in a message have half of
what the controller takes."""

# ---- what a node may say of itself, and what may be ordered of it

MOST_VCPUS = 100_000
MOST_SLICES = 1_000
MOST_SLICE_MB = 10**9
MOST_NAMES = 10_000
LONGEST_TASK_US = DAY_S * US_PER_S
"""Of a task, and of loading a model: what all stages of a request cost still fits into 64 bits."""
LAST_TASK = 2**53
LAST_TASK_BELIEVED = 2**40
"""A node that joins says up to which number it has heard of tasks, and the next one has a higher
number. From a wrong one there must be room to go on: here, for thousands of years."""

# ---- what a catalog may say of functions and nodes

LONGEST_PART_MS = 1e8
MOST_USD_PER_HOUR = 1e3
MOST_MB = 1e9
LONGEST_PROFILED_US = 2**33  # over two hours
MOST_TASK_PUSD = 2**55
