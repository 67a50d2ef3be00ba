"""`python -m benchmarks.apex`: apex beside all other policies."""
