"""The brains of ESG: pure, deterministic, and without a clock.

Everything in this package is a function of its arguments. Facts come in with their time, orders go
out; the live controller, the emulator and the replayer drive the very same objects. The package
imports the standard library, numpy and msgspec (and a graph library while an application is
registered), and nothing in it reads a clock, opens a socket, draws a random number or writes a log.

Where to start reading: `catalog` (what there is), `search` (which config), `scheduler` (when and
where), `pool` (the same on a worker node).
"""

__version__ = "0.1.0"
