"""`python -m benchmarks.search`: decisions of the search engines, beside the literal listing."""
