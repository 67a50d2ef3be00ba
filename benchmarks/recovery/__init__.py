"""`python -m benchmarks.recovery`: what a death costs, and what the journal costs."""
