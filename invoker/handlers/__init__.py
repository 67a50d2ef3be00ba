"""The CPU parts of functions, and the processes they run in."""
