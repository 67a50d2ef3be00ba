"""What nodes have in common, live and emulated, unless they are told otherwise."""

from esg.units import seconds

KEEP_ALIVE_US = seconds(600)
"""Idle time after which a model is unloaded."""
