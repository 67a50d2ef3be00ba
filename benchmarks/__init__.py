"""Benchmarks: each prints the figure it is for, next to its reference, in one run."""
