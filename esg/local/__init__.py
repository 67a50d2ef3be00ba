"""A whole mesh on one machine: its processes, their supervisor, their directory."""
