"""Sessions between processes, as state machines without I/O: live and simulated links use them."""
