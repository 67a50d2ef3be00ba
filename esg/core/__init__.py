"""The core: the scheduler and all that decides, pure, deterministic and without a clock.

Everything in this package is a function of its arguments. Facts come in with their time, orders go
out; the live controller, the emulator and the replayer drive the very same objects. The package
imports the standard library, numpy and msgspec (and a graph library in `catalog.dag`), and nothing
in it reads a clock, opens a socket, draws a random number or writes a log.

Rooms, each of which imports only those before it: `catalog` (what there is), `search` (which
config), `messages` (events and commands), `state` (what is remembered), `estimation` (what is
learnt), `policies` (who decides), `scheduler` (when and where), `journal`. `pool` is the same for a
worker node.
"""
