"""Traces: who called when, recorded by somebody else. `read.read_trace` reads them all."""
