"""Bringing a mesh up and down: on this machine, or as a compose file."""
