"""What can go wrong, as twins of the live parts in virtual time.

    misfortune   tasks and loads that fail, nodes that are slow
    storage      where outputs are: on nodes that may be gone, published, or expired
    links        streams that stall and break, nodes that come back or are given up
    controller   a clock that jumps, a journal that is torn, a restart from what is left
    clients      requests that are asked for again until they are answered

Each is a piece for `emulator.World`; `tests/simulation` puts them together, with a schedule of
faults that is drawn from a seed.
"""
