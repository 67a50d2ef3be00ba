"""The emulator from the command line: compare, reproduce, replay, what-if, train."""
