"""`python -m benchmarks.triton`: what a node adds to a call of a Triton server."""
