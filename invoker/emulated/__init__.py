"""Emulated slices: a process that speaks Triton's protocol and takes the profiled times."""
