"""What can go wrong in virtual time: network, disks, clocks and processes around the real code.

    fault_injection   tasks and loads that fail, nodes that are slow
    storage           where outputs are: on nodes that may be gone, published, or expired
    links             streams that stall and break, under the sessions of the nodes
    controller        a clock that jumps, a journal that is torn, a restart from what is left
    clients           gateways: links that break, under their questions about requests
    gateway_door      the controller's end of those, in short

Each is a piece for `emulator.World`; `tests/simulation` puts them together, with a schedule of
faults that is drawn from a seed. The protocol itself is that of `esg.core.sessions`.
"""
